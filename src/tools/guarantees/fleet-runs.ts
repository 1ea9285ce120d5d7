/** What runs of the chaos harness for fleets come to together: its file has a list of them. */
import { z } from 'zod'

const fault = z.object({
  count: z.number(),
  duplicates: z.object({ total: z.number(), most: z.number() }),
  /** Where no other fault was near. */
  failOverAloneMs: z.array(z.number()),
})
const counted = z.object({
  accepted: z.number(),
  lost: z.number(),
  explained: z.number(),
  unexplained: z.number(),
  inversions: z.number(),
  gaps: z.number(),
  overlaps: z.number(),
  disablings: z.number(),
  afterDisabling: z.number(),
})
const fleetRuns = z.array(
  z.object({
    seed: z.number(),
    at: z.string(),
    controllers: z.number(),
    latestAfterDisablingMs: z.number(),
    counts: counted,
    faults: z.record(z.string(), fault),
  }),
)
type FleetRun = z.infer<typeof fleetRuns>[number]
type Counted = z.infer<typeof counted>

/** Stamped as the last of them; undefined where there is none. @throws ZodError when it is no such list */
export function fleetFiguresOf(text: string) {
  const runs = fleetRuns.parse(JSON.parse(text))
  const last = runs.at(-1)
  if (!last) return undefined
  const sum = (key: keyof Counted) => runs.reduce((total, { counts }) => total + counts[key], 0)
  const accepted = sum('accepted')
  const lost = sum('lost')
  return {
    measuredAt: last.at,
    seed: last.seed,
    runs: runs.length,
    seeds: runs.map(({ seed }) => seed).join(' '),
    controllers: Math.max(...runs.map(({ controllers }) => controllers)),
    accepted,
    lost,
    // Of nothing in so many the share is below this with 95 % certainty; where something was lost there is no such promise.
    ...(lost === 0 && accepted > 0 ? { lostBound95: -Math.log(0.05) / accepted } : {}),
    duplicates: { explained: sum('explained'), unexplained: sum('unexplained') },
    inversions: sum('inversions'),
    gaps: sum('gaps'),
    overlaps: sum('overlaps'),
    disablings: sum('disablings'),
    afterDisabling: {
      attempts: sum('afterDisabling'),
      latestMs: Math.max(...runs.map(({ latestAfterDisablingMs }) => latestAfterDisablingMs)),
    },
    faults: Object.fromEntries(kindsOf(runs).map((kind) => [kind, faultsOf(runs, kind)])),
  }
}

function kindsOf(runs: readonly FleetRun[]): string[] {
  return [...new Set(runs.flatMap(({ faults }) => Object.keys(faults)))].sort()
}

function faultsOf(runs: readonly FleetRun[], kind: string) {
  const all = runs.flatMap(({ faults }) => faults[kind] ?? [])
  const sorted = all.flatMap(({ failOverAloneMs }) => failOverAloneMs).sort((a, b) => a - b)
  const at = (part: number) => sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)]
  return {
    count: all.reduce((sum, { count }) => sum + count, 0),
    duplicates: {
      total: all.reduce((sum, { duplicates }) => sum + duplicates.total, 0),
      most: Math.max(...all.map(({ duplicates }) => duplicates.most)),
    },
    ...(sorted.length > 0
      ? { failOverAloneMs: { times: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) } }
      : {}),
  }
}
