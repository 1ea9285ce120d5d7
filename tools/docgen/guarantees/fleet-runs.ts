/** Sums up runs of the chaos harness for fleets, which are a list in its results file. */
import { z } from 'zod'

const fault = z.object({
  count: z.number(),
  duplicates: z.object({ total: z.number(), most: z.number() }),
  /** For each endpoint with a healthy receiver. */
  failOverMs: z.array(z.number()),
  /** Without another fault nearby. */
  failOverAloneMs: z.array(z.number()),
})
const counted = z.object({
  events: z.number(),
  accepted: z.number(),
  lost: z.number(),
  explained: z.number(),
  unexplained: z.number(),
  /** Successfully received requests, and those of them whose repetition no fault would have explained. */
  taken: z.number(),
  watched: z.number(),
  inversions: z.number(),
  gaps: z.number(),
  overlaps: z.number(),
  /** Absent: not checked. */
  unleased: z.number().optional(),
  leased: z.number().optional(),
  beyondEight: z.number(),
  waitsOutside: z.number(),
  waitsCompared: z.number(),
  doubled: z.number(),
  disagreed: z.number(),
  misrouted: z.number(),
  disablings: z.number(),
  afterDisabling: z.number(),
  deletions: z.number(),
  afterDeleting: z.number(),
})
const fleetRuns = z.array(
  z.object({
    seed: z.number(),
    at: z.string(),
    commit: z.string(),
    minutes: z.number(),
    controllers: z.number(),
    servers: z.number(),
    latestAfterDisablingMs: z.number(),
    kinds: z.array(z.string()).optional(),
    /** How long the fault lasted, unless that was random. */
    forMs: z.number().optional(),
    counts: counted,
    faults: z.record(z.string(), fault),
  }),
)
type FleetRun = z.infer<typeof fleetRuns>[number]
type Counted = z.infer<typeof counted>

/** Has the commit and time of the last run; undefined without runs. @throws ZodError for another format */
export function fleetFiguresOf(text: string) {
  const runs = fleetRuns.parse(JSON.parse(text))
  const last = runs.at(-1)
  if (!last) return undefined
  const sum = (key: keyof Counted) => runs.reduce((total, { counts }) => total + (counts[key] ?? 0), 0)
  const accepted = sum('accepted')
  const lost = sum('lost')
  return {
    measuredAt: last.at,
    seed: last.seed,
    runs: runs.length,
    // Runs are kept while Davit is fixed, so the figures include the number of versions.
    versions: new Set(runs.map(({ commit }) => commit)).size,
    minutes: Math.round(runs.reduce((total, { minutes }) => total + minutes, 0)),
    seeds: runs.map(({ seed }) => seed).join(' '),
    controllers: Math.max(...runs.map(({ controllers }) => controllers)),
    'REST servers': Math.max(...runs.map(({ servers }) => servers)),
    events: sum('events'),
    accepted,
    lost,
    ...boundOf(lost, accepted),
    newest: ofVersion(runs.filter(({ commit }) => commit === last.commit)),
    received: { well: sum('taken'), 'far from any fault': sum('watched') },
    duplicates: { explained: sum('explained'), unexplained: sum('unexplained') },
    inversions: sum('inversions'),
    gaps: sum('gaps'),
    overlaps: sum('overlaps'),
    'longest outage of the API server, s': longestOutageMs(runs) / 1000,
    leases: leasesOf(runs.map((run) => run.counts)),
    beyondEight: sum('beyondEight'),
    waits: { compared: sum('waitsCompared'), outside: sum('waitsOutside') },
    'keys that were two events': sum('doubled'),
    'events matched as before an answered change': sum('disagreed'),
    'deliveries too many or too few': sum('misrouted'),
    disablings: sum('disablings'),
    afterDisabling: {
      attempts: sum('afterDisabling'),
      latestMs: Math.max(...runs.map(({ latestAfterDisablingMs }) => latestAfterDisablingMs)),
    },
    deletions: sum('deletions'),
    afterDeleting: { attempts: sum('afterDeleting') },
    faults: Object.fromEntries(kindsOf(runs).map((kind) => [kind, faultsOf(runs, kind)])),
  }
}

/** The longest of the faults with a given length. */
function longestOutageMs(runs: readonly FleetRun[]): number {
  const given = runs.filter(({ kinds }) => kinds?.includes('API server restart'))
  return Math.max(0, ...given.map(({ forMs = 0 }) => forMs))
}

/** Counts requests with a known Lease renewal of their sender, and requests without a Lease. */
function leasesOf(counts: readonly Counted[]) {
  return {
    'requests compared': counts.reduce((total, { leased = 0 }) => total + leased, 0),
    'sent without one': counts.reduce((total, { unleased = 0 }) => total + unleased, 0),
  }
}

/** One row per kind of fault, the most repeated first. */
export function fleetFaultRows(text: string): string[][] {
  const runs = fleetRuns.parse(JSON.parse(text))
  const newest = runs.filter(({ commit }) => commit === runs.at(-1)?.commit)
  return kindsOf(runs)
    .map((kind) => ({ kind, all: faultsOf(runs, kind), now: faultsOf(newest, kind) }))
    .sort((a, b) => b.all.count - a.all.count)
    .map(({ kind, all, now }) => [
      kind,
      whole(all.count),
      whole(now.count),
      whole(all.duplicates.total),
      whole(all.duplicates.most),
      spreadText(all.failOverMs),
      spreadText(all.failOverAloneMs),
    ])
}

function spreadText(spread: Spread | undefined): string {
  return spread
    ? `${whole(spread.times)}: ${[spread.p50, spread.p99, spread.max].map(whole).join(' / ')}`
    : ''
}

function whole(value: number): string {
  return value.toLocaleString('en-GB')
}

function kindsOf(runs: readonly FleetRun[]): string[] {
  return [...new Set(runs.flatMap(({ faults }) => Object.keys(faults)))].sort()
}

function faultsOf(runs: readonly FleetRun[], kind: string): FaultsOfKind {
  const all = runs.flatMap(({ faults }) => faults[kind] ?? [])
  return {
    count: all.reduce((sum, { count }) => sum + count, 0),
    duplicates: {
      total: all.reduce((sum, { duplicates }) => sum + duplicates.total, 0),
      most: Math.max(0, ...all.map(({ duplicates }) => duplicates.most)),
    },
    ...timesOf('failOverMs', all),
    ...timesOf('failOverAloneMs', all),
  }
}

type Times = 'failOverMs' | 'failOverAloneMs'

/** In milliseconds. */
type Spread = { times: number; p50: number; p99: number; max: number }

type FaultsOfKind = { count: number; duplicates: { total: number; most: number } } & Partial<
  Record<Times, Spread>
>

function timesOf(which: Times, faults: readonly z.infer<typeof fault>[]): Partial<Record<Times, Spread>> {
  const sorted = faults.flatMap((one) => one[which]).sort((a, b) => a - b)
  if (sorted.length === 0) return {}
  const at = (part: number) => sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0
  return { [which]: { times: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) } }
}

/** The runs of the newest version only: earlier ones may have defects that are fixed since. */
function ofVersion(runs: readonly FleetRun[]) {
  const sum = (value: (run: FleetRun) => number) => runs.reduce((total, run) => total + value(run), 0)
  const accepted = sum(({ counts }) => counts.accepted)
  const lost = sum(({ counts }) => counts.lost)
  return {
    runs: runs.length,
    minutes: Math.round(sum(({ minutes }) => minutes)),
    faults: sum(({ faults }) => Object.values(faults).reduce((total, { count }) => total + count, 0)),
    accepted,
    lost,
    ...boundOf(lost, accepted),
  }
}

/** With zero losses, the loss rate is below this bound with 95 % confidence; with any loss there is no such bound. */
function boundOf(lost: number, accepted: number) {
  return lost === 0 && accepted > 0 ? { lostBound95: -Math.log(0.05) / accepted } : {}
}
