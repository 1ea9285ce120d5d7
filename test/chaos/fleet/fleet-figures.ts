/** The figures of a fleet run, in a form that can be added to those of others. */
import { z } from 'zod'
import { slowAmong } from './fail-overs.ts'
import { RECORD_KINDS, type RecordKind } from './faults.ts'
import type { FleetRun, FleetRunOptions } from './fleet-run.ts'

const faultFigures = z.object({
  count: z.number(),
  /** Repeated requests that the fault explains, and the maximum time between the first answer and the fault. */
  duplicates: z.object({ total: z.number(), most: z.number(), earliestMs: z.number() }),
  /** Milliseconds in which a due attempt was not made; `alone`: without other faults meanwhile. */
  gapMs: z.array(z.number()),
  gapAloneMs: z.array(z.number()),
  /** Milliseconds until another process continued with an endpoint. */
  failOverMs: z.array(z.number()),
  failOverAloneMs: z.array(z.number()),
  /** Of those alone, the ones of unordered endpoints. */
  failOverUnorderedMs: z.array(z.number()).default([]),
})
export type FaultFigures = z.infer<typeof faultFigures>

const counts = z.object({
  events: z.number(),
  notes: z.number(),
  accepted: z.number(),
  receptions: z.number(),
  /** Successful receptions, and those of them whose repetition no fault would have explained. */
  taken: z.number(),
  watched: z.number(),
  lost: z.number(),
  explained: z.number(),
  unexplained: z.number(),
  inversions: z.number(),
  gaps: z.number(),
  overlaps: z.number(),
  /** Requests without a valid Lease, of those whose sender's renewals are known; absent if not checked. */
  unleased: z.number().optional(),
  leased: z.number().optional(),
  beyondEight: z.number(),
  waitsOutside: z.number(),
  waitsCompared: z.number(),
  exhausted: z.number(),
  disablings: z.number(),
  /** Of endpoints. */
  deletions: z.number().default(0),
  /** Segments of the log, and deliveries, that were deleted during the run. */
  forgotten: z.number().default(0),
  afterDisabling: z.number(),
  afterDeleting: z.number().default(0),
  doubled: z.number(),
  missing: z.number(),
  misrouted: z.number(),
  disagreed: z.number(),
  slowFailOvers: z.number(),
  repeats: z.number(),
  retried: z.number(),
  objects: z.number(),
  leftLeases: z.number(),
})
export type Counts = z.infer<typeof counts>

export const fleetFigures = z.object({
  seed: z.number(),
  commit: z.string(),
  /** The day. */
  at: z.string(),
  controllers: z.number(),
  servers: z.number(),
  leaseMs: z.number(),
  perSecond: z.number(),
  /** Average number of faults between two rests. */
  between: z.number(),
  /** Absent: all kinds. */
  kinds: z.array(z.string()).optional(),
  /** Other parameters that are needed to repeat a run, in addition to its seed; absent in older ones. */
  retentionMs: z.number().optional(),
  logBytes: z.number().optional(),
  faultsOfEach: z.number().optional(),
  forMs: z.number().optional(),
  /** How many milliseconds a second API server was behind; absent: there was only one. */
  behindMs: z.number().optional(),
  /** The version that was changed to. */
  other: z.string().optional(),
  minutes: z.number(),
  /** Mean load of the machine during the run, and the longest stall of the harness itself. */
  load: z.number(),
  stalledMs: z.number(),
  latestAfterDisablingMs: z.number(),
  latestAfterDeletingMs: z.number().default(0),
  /** Maximum delay beyond the schedule, of undisturbed retries that did not wait for a slot. */
  latestWaitMs: z.number().default(0),
  counts,
  faults: z.record(z.string(), faultFigures),
  wrong: z.array(z.string()),
})
export type FleetFigures = z.infer<typeof fleetFigures>

export function fleetFiguresOf(run: FleetRun, options: FleetRunOptions, commit: string): FleetFigures {
  return {
    seed: options.seed,
    commit,
    at: new Date().toISOString().slice(0, 10),
    controllers: options.controllers,
    servers: options.servers,
    leaseMs: options.leaseMs,
    perSecond: options.perSecond,
    between: options.between,
    ...(options.kinds ? { kinds: [...options.kinds] } : {}),
    ...repeatedWith(options),
    minutes: round(run.lastedMs / 60_000),
    load: round(run.load),
    stalledMs: Math.round(run.stalledMs),
    latestAfterDisablingMs: Math.round(Math.max(0, ...run.verdict.late)),
    latestAfterDeletingMs: Math.round(Math.max(0, ...run.verdict.lateDeleted.map(({ ms }) => ms))),
    latestWaitMs: Math.round(run.verdict.latestWaitMs),
    counts: countsOf(run),
    faults: Object.fromEntries(
      RECORD_KINDS.map((kind): [string, FaultFigures] => [kind, faultFiguresOf(run, kind)]).filter(
        ([, { count }]) => count > 0,
      ),
    ),
    wrong: run.wrong,
  }
}

function repeatedWith({ retentionMs, logBytes, behindMs, faultsOfEach, forMs, other }: FleetRunOptions) {
  return {
    retentionMs,
    ...(logBytes === undefined ? {} : { logBytes }),
    ...(behindMs === undefined ? {} : { behindMs }),
    ...(faultsOfEach === undefined ? {} : { faultsOfEach }),
    ...(forMs === undefined ? {} : { forMs }),
    ...(other === undefined ? {} : { other: other.ref }),
  }
}

function countsOf({ verdict, ...run }: FleetRun): Counts {
  const unexplained = verdict.duplicates.filter(({ explained }) => !explained).length
  return {
    events: run.events,
    notes: run.notes,
    accepted: verdict.accepted,
    receptions: verdict.receptions,
    taken: verdict.taken.all,
    watched: verdict.taken.watched,
    lost: verdict.lost.length,
    explained: verdict.duplicates.length - unexplained,
    unexplained,
    inversions: verdict.inversions.length,
    gaps: verdict.gaps.length,
    overlaps: verdict.overlaps.length,
    unleased: verdict.leases.unleased.length,
    leased: verdict.leases.compared,
    beyondEight: verdict.beyond.length,
    waitsOutside: verdict.waits.length,
    waitsCompared: verdict.waitsCompared,
    exhausted: run.exhausted,
    disablings: run.disablings,
    deletions: run.deletions,
    forgotten: run.forgotten,
    afterDisabling: verdict.late.length,
    afterDeleting: verdict.lateDeleted.length,
    doubled: verdict.doubled.length,
    missing: verdict.missing.length,
    misrouted: verdict.misrouted.length,
    disagreed: verdict.disagreed.length,
    slowFailOvers: slowAmong(verdict.failOvers).length,
    repeats: run.repeats,
    retried: run.retried,
    objects: run.objects,
    leftLeases: run.leases,
  }
}

function faultFiguresOf({ faults, gaps, verdict }: FleetRun, kind: RecordKind): FaultFigures {
  const own = faults.filter((one) => one.kind === kind)
  const repeats = own.map((fault) => verdict.repeatsByFault.get(fault) ?? [])
  const found = gaps.filter((gap) => gap.kind === kind)
  const failOvers = verdict.failOvers.filter(({ fault }) => fault.kind === kind)
  const whole = (values: readonly { ms: number }[]) => values.map(({ ms }) => Math.round(ms))
  return {
    count: own.length,
    duplicates: {
      total: repeats.flat().length,
      most: Math.max(0, ...repeats.map(({ length }) => length)),
      earliestMs: Math.round(Math.max(0, ...repeats.flat())),
    },
    gapMs: whole(found),
    gapAloneMs: whole(found.filter(({ alone }) => alone)),
    failOverMs: whole(failOvers),
    failOverAloneMs: whole(failOvers.filter(({ alone }) => alone)),
    failOverUnorderedMs: whole(failOvers.filter(({ alone, ordered }) => alone && !ordered)),
  }
}

/** @param runs at least one */
export function sumOf(runs: readonly FleetFigures[]): Pick<FleetFigures, 'minutes' | 'counts' | 'faults'> & {
  runs: number
  broken: FleetFigures[]
  latestAfterDisablingMs: number
} {
  const faults: Record<string, FaultFigures> = {}
  for (const run of runs)
    for (const [kind, figures] of Object.entries(run.faults)) {
      const held = faults[kind]
      faults[kind] = held ? added(held, figures) : figures
    }
  return {
    runs: runs.length,
    minutes: round(runs.reduce((sum, { minutes }) => sum + minutes, 0)),
    counts: runs
      .map((run) => run.counts)
      .reduce((sum, one) =>
        counts.parse(
          Object.fromEntries(
            Object.keys(counts.shape).map((key) => [key, countIn(sum, key) + countIn(one, key)]),
          ),
        ),
      ),
    faults: Object.fromEntries(RECORD_KINDS.flatMap((kind) => (faults[kind] ? [[kind, faults[kind]]] : []))),
    latestAfterDisablingMs: Math.max(...runs.map((run) => run.latestAfterDisablingMs)),
    broken: runs.filter(({ wrong }) => wrong.length > 0),
  }
}

function countIn(one: Counts, key: string): number {
  return one[key as keyof Counts] ?? 0
}

function added(one: FaultFigures, other: FaultFigures): FaultFigures {
  return {
    count: one.count + other.count,
    duplicates: {
      total: one.duplicates.total + other.duplicates.total,
      most: Math.max(one.duplicates.most, other.duplicates.most),
      earliestMs: Math.max(one.duplicates.earliestMs, other.duplicates.earliestMs),
    },
    gapMs: [...one.gapMs, ...other.gapMs],
    gapAloneMs: [...one.gapAloneMs, ...other.gapAloneMs],
    failOverMs: [...one.failOverMs, ...other.failOverMs],
    failOverAloneMs: [...one.failOverAloneMs, ...other.failOverAloneMs],
    failOverUnorderedMs: [...one.failOverUnorderedMs, ...other.failOverUnorderedMs],
  }
}

function round(value: number): number {
  return Number(value.toFixed(1))
}
