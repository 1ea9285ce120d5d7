/** What runs of the chaos harness for fleets come to together: its file has a list of them. */
import { z } from 'zod'

const fault = z.object({
  count: z.number(),
  duplicates: z.object({ total: z.number(), most: z.number() }),
  /** Of each endpoint whose receiver is well. */
  failOverMs: z.array(z.number()),
  /** Where no other fault was near. */
  failOverAloneMs: z.array(z.number()),
})
const counted = z.object({
  events: z.number(),
  accepted: z.number(),
  lost: z.number(),
  explained: z.number(),
  unexplained: z.number(),
  /** Requests that were received well, and those among them whose repetition no fault would have explained. */
  taken: z.number(),
  watched: z.number(),
  inversions: z.number(),
  gaps: z.number(),
  overlaps: z.number(),
  /** Absent: it was not looked for. */
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
    facades: z.number(),
    latestAfterDisablingMs: z.number(),
    kinds: z.array(z.string()).optional(),
    /** What was done lasted so long, where that was not drawn. */
    forMs: z.number().optional(),
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
  const sum = (key: keyof Counted) => runs.reduce((total, { counts }) => total + (counts[key] ?? 0), 0)
  const accepted = sum('accepted')
  const lost = sum('lost')
  return {
    measuredAt: last.at,
    seed: last.seed,
    runs: runs.length,
    // Runs are kept while Davit is mended: what a figure is of is said with it.
    versions: new Set(runs.map(({ commit }) => commit)).size,
    minutes: Math.round(runs.reduce((total, { minutes }) => total + minutes, 0)),
    seeds: runs.map(({ seed }) => seed).join(' '),
    controllers: Math.max(...runs.map(({ controllers }) => controllers)),
    facades: Math.max(...runs.map(({ facades }) => facades)),
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

/** Of those whose length was given. */
function longestOutageMs(runs: readonly FleetRun[]): number {
  const given = runs.filter(({ kinds }) => kinds?.includes('API server restart'))
  return Math.max(0, ...given.map(({ forMs = 0 }) => forMs))
}

/** Requests of which it is known when their sender had renewed its Lease, and those that had none. */
function leasesOf(counts: readonly Counted[]) {
  return {
    'requests compared': counts.reduce((total, { leased = 0 }) => total + leased, 0),
    'sent without one': counts.reduce((total, { unleased = 0 }) => total + unleased, 0),
  }
}

/** Each kind of fault, with those that came most often first. */
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
      wordsOf(all.failOverMs),
      wordsOf(all.failOverAloneMs),
    ])
}

function wordsOf(spread: Spread | undefined): string {
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

/** Milliseconds. */
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

/** Of one version: what has changed since the first of all runs has no part in it. */
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

/** Of nothing in so many the share is below this with 95 % certainty; where something was lost there is no such promise. */
function boundOf(lost: number, accepted: number) {
  return lost === 0 && accepted > 0 ? { lostBound95: -Math.log(0.05) / accepted } : {}
}
