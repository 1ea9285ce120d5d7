/** Measures how long it took until another process continued the work of one that was ended or suspended. */
import type { SeenReception } from '../receivers.ts'
import type { Blow, FaultRecord } from './fault-work.ts'
import { DRAIN_MS, type RecordKind, sortOf } from './faults.ts'
import type { FleetEvidence } from './fleet-verdict.ts'
import { busyness } from './stall-watch.ts'

/**
 * For one endpoint. `alone`: without other faults of the store or of a controller meanwhile. `calmMs`: the longest period in it
 * without other faults or their effects. `boundMs`: the promised bound of that.
 */
export type FailOver = {
  fault: FaultRecord
  endpoint: string
  ordered: boolean
  ms: number
  calmMs: number
  boundMs: number
  alone: boolean
}

const KINDS: ReadonlySet<RecordKind> = new Set([
  'kill controller',
  'suspend controller',
  'roll controllers',
  'change version',
])
/** A check of the Leases, a claim, and a list, on a busy machine. */
const WORK_MS = 6000
/** Such an endpoint gets two events per second. */
const NEXT_EVENT_MS = 3000
/** A request of an ended process may be received this much later. */
const OWN_MS = 500

/** Only for endpoints with healthy receivers that another process took over. */
export function failOversOf(evidence: FleetEvidence): FailOver[] {
  const steady = new Set(evidence.endpoints.filter((one) => one.steady).map(({ name }) => name))
  const inOrder = new Set(evidence.endpoints.filter((one) => one.ordered).map(({ name }) => name))
  const byEndpoint = Map.groupBy(
    evidence.receptions.filter(({ endpoint }) => steady.has(endpoint)),
    ({ endpoint }) => endpoint,
  )
  return evidence.faults
    .filter(({ kind }) => KINDS.has(kind))
    .flatMap((fault) =>
      fault.blows.flatMap((blow) =>
        [...byEndpoint].flatMap(([endpoint, receptions]) => {
          const next = nextAfter(blow, receptions)
          if (!next) return []
          const ms = next.at - blow.at
          const ordered = inOrder.has(endpoint)
          const boundMs = boundOf(fault, blow, { next, ordered }, evidence)
          const others = othersWithin(fault, [blow.at, next.at], evidence)
          const calmMs = longestCalm([blow.at, next.at], others)
          return [{ fault, endpoint, ordered, ms, calmMs, boundMs, alone: others.length === 0 }]
        }),
      ),
    )
}

/** The first request of another process; undefined if another one had driven the endpoint, or the same one continued. */
function nextAfter({ life, at }: Blow, receptions: readonly SeenReception[]): SeenReception | undefined {
  const index = receptions.findIndex((one) => one.at > at)
  if (index < 1 || receptions[index - 1]?.run !== life) return undefined
  const next = receptions.slice(index).find((one) => one.run !== life || one.at > at + OWN_MS)
  return next && next.run !== life ? next : undefined
}

/**
 * For a process that started later, the time counts from when it has seen the Lease, and until the last attempts must have ended: so long
 * it lets those go first that know the Lease for longer.
 */
function boundOf(
  { kind }: FaultRecord,
  { at }: Blow,
  { next, ordered }: { next: SeenReception; ordered: boolean },
  evidence: FleetEvidence,
): number {
  const { startedAt, leaseMs } = evidence
  const rest = WORK_MS * busyness([at, next.at], evidence.loads) + NEXT_EVENT_MS
  if (kind === 'roll controllers' || kind === 'change version') return DRAIN_MS + rest
  const afterMs = (startedAt.get(next.run) ?? at) - at
  const drainMs = ordered || afterMs > 0 ? DRAIN_MS : 0
  return Math.max(0, afterMs) + leaseMs + drainMs + rest
}

/** After this much time without any other fault, some process must have continued. */
export function slowAmong(failOvers: readonly FailOver[]): FailOver[] {
  return failOvers.filter(({ calmMs, boundMs }) => calmMs > boundMs)
}

/** Half of them would say nothing of one, and very few nothing of all. */
const ENOUGH = 9

/** The median of those without other faults, because slow receivers may delay single ones. Describes violations. */
export function slowRolls(failOvers: readonly FailOver[], leaseMs: number): string[] {
  const times = failOvers
    .filter(({ fault, alone }) => alone && fault.kind === 'roll controllers')
    .map(({ ms }) => ms)
    .sort((a, b) => a - b)
  const median = times[Math.floor(times.length / 2)] ?? 0
  return times.length < ENOUGH || median < leaseMs
    ? []
    : [`${Math.round(median)} ms, half of ${times.length}`]
}

function longestCalm([from, to]: [number, number], others: readonly FaultRecord[]): number {
  let calmFrom = from
  let longest = 0
  for (const one of others.toSorted((a, b) => a.from - b.from)) {
    longest = Math.max(longest, Math.min(one.from, to) - calmFrom)
    calmFrom = Math.max(calmFrom, one.to, one.readyAt)
  }
  return Math.max(longest, to - calmFrom)
}

function othersWithin(
  fault: FaultRecord,
  [from, to]: [number, number],
  { faults }: FleetEvidence,
): FaultRecord[] {
  return faults.filter(
    (one) =>
      one !== fault &&
      !isOwnLapse(one, fault) &&
      !one.kind.endsWith('REST server') &&
      !one.kind.endsWith('REST servers') &&
      one.from <= to &&
      Math.max(one.to, sortOf(one.kind) === 'process' ? one.readyAt : 0) >= from,
  )
}

/** Whether it is the lapse of the process that was ended or suspended. */
function isOwnLapse({ kind, lives }: FaultRecord, fault: FaultRecord): boolean {
  return kind === 'lapse' && lives !== 'all' && fault.blows.some(({ life }) => lives.includes(life))
}
