/** Compares what a fleet has accepted with what receivers saw, given its faults. */
import { judge, keyOf, repeatsAmong, type Verdict } from '../../support/verdict.ts'
import type { SeenReception } from '../receivers.ts'
import type { StoredLog } from '../stored.ts'
import type { Pause } from '../toggler.ts'
import type { FleetEndpoint } from './endpoints.ts'
import { type Course, explanationOf, faultAt } from './explained.ts'
import { type FailOver, failOversOf } from './fail-overs.ts'
import type { FaultRecord } from './fault-work.ts'
import type { RecordKind } from './faults.ts'
import { type OldRepeat, oldRepeatsAmong } from './old-repeats.ts'
import { judgePublished, type PublishedVerdict } from './published-verdict.ts'
import type { Published } from './publishers.ts'
import { type Load, type Stall, wasSeenLate } from './stall-watch.ts'
import { type ComparedLeases, compareLeases } from './unleased.ts'
import { compareWaits, type Wait } from './waits.ts'

export type FleetEvidence = Course & {
  log: Pick<StoredLog, 'deliveries' | 'events'>
  /** In the order of arrival. */
  receptions: readonly SeenReception[]
  endpoints: readonly FleetEndpoint[]
  /** Deliveries that are stored as exhausted, `<endpoint> <id>`. */
  exhausted: ReadonlySet<string>
  published: readonly Published[]
  /** Of the endpoints that are disabled and enabled, by name. */
  pauses: ReadonlyMap<string, readonly Pause[]>
  /** Deleted endpoints: their deliveries in progress were canceled. */
  deleted: ReadonlySet<string>
  /** Deleted endpoints without an answer that controllers have stopped. */
  unsure: ReadonlySet<string>
  /** Stalls of this program, during which it noticed events late. */
  stalls: readonly Stall[]
  /** Load of the machine, second by second. */
  loads: readonly Load[]
  waitScale: number
  leaseMs: number
  /** When each life of a process began. */
  startedAt: ReadonlyMap<number, number>
  /** Renewals of the Lease by each life of a controller. */
  renewals: ReadonlyMap<number, readonly number[]>
  /** When Leases were read, in order. */
  looks: readonly number[]
}

export type Overlap = { endpoint: string; ids: [string, string]; ms: number }

export type FleetVerdict = Verdict &
  PublishedVerdict & {
    /** Explained duplicates by fault: milliseconds between the first answer and the fault. */
    repeatsByFault: Map<FaultRecord, number[]>
    oldRepeats: OldRepeat[]
    /** Successful receptions, and those among them whose repetition nothing would have explained. */
    taken: { all: number; watched: number }
    failOvers: FailOver[]
    /** Two simultaneous attempts of one ordered endpoint. */
    overlaps: Overlap[]
    leases: ComparedLeases
    /**
     * For each attempt between the acknowledgement of a disabling and the request to enable, the milliseconds since the former.
     */
    late: number[]
    /** The same for a deletion; `isSure`: the answer said that controllers have stopped. */
    lateDeleted: { ms: number; isSure: boolean }[]
    waits: Wait[]
    waitsCompared: number
    /** Maximum delay beyond the schedule, of undisturbed attempts that did not wait for a slot. */
    latestWaitMs: number
    bodies: string[]
  }

const MAX_ATTEMPTS = 8
/** Maximum duration of an attempt: after it the sender has given up, whether its connection shows that or not. */
const ATTEMPT_MS = 20_000
/** Two events of one connection may be seen in reverse order. */
const OVERLAP_MS = 5
/** A new connection hardly takes longer on this machine. */
const AGAIN_MS = 1000
/** An attempt that takes longer keeps others waiting. */
const SLOW_MS = 1000

/** Deliveries with a failed attempt whose outcome no fault has made unknown, `<endpoint> <id>`. */
export function knownFailures({ receptions, faults }: FleetEvidence): ReadonlySet<string> {
  const attempts = attemptsAmong(receptions)
  const times = timesOf(attempts)
  // A stale connection is dialled again within its attempt, however long that takes.
  const known = attempts.filter(
    (one) => one.answer === 'failed' && !one.isStale && faultAt(times(one), faults) === undefined,
  )
  return new Set(known.map(keyOf))
}

/** A fault whose outcome or time says nothing about Davit's behavior. */
const CLOCK: RecordKind = 'clock step'

export function judgeFleet(given: FleetEvidence): FleetVerdict {
  const evidence = { ...given, receptions: attemptsAmong(given.receptions) }
  const { log, receptions, endpoints, faults, exhausted } = evidence
  const ordered = new Set(endpoints.filter(({ ordered }) => ordered).map(({ name }) => name))
  const times = timesOf(receptions)
  const verdict = judge({
    accepted: log.deliveries,
    receptions,
    orderedEndpoints: ordered,
    killed: new Set(),
    maxAttempts: MAX_ATTEMPTS,
    excuses: {
      explains: (earlier, later) => explanationOf(times(earlier), times(later), evidence) !== undefined,
      unknown: (attempts) => attempts.filter((one) => faultAt(times(one), faults) !== undefined).length,
      exhausted,
    },
  })
  const byDelivery = Map.groupBy(receptions, keyOf)
  const slow = Map.groupBy(
    receptions.filter(({ at, endedAt }) => endedAt - at > SLOW_MS),
    ({ endpoint }) => endpoint,
  )
  const waits = [...byDelivery.values()].map((attempts) =>
    waitsOf(attempts, { ordered, slow: slow.get(attempts[0]?.endpoint ?? '') ?? [] }, evidence),
  )
  return {
    ...verdict,
    // Deliveries in progress at the deletion of their endpoint are canceled: whether they were received says nothing.
    accepted: log.deliveries.filter(({ endpoint }) => !evidence.deleted.has(endpoint)).length,
    lost: verdict.lost.filter(({ endpoint }) => !evidence.deleted.has(endpoint)),
    ...judgePublished(evidence),
    repeatsByFault: repeatsByFault([...byDelivery.values()], evidence),
    oldRepeats: [...byDelivery.values()].flatMap((attempts) => oldRepeatsAmong(attempts, evidence)),
    taken: takenAmong(receptions, faults),
    failOvers: failOversOf(evidence),
    overlaps: [...ordered].flatMap((name) =>
      overlapsAt(receptions.filter(({ endpoint }) => endpoint === name)),
    ),
    leases: compareLeases(receptions, evidence),
    late: latenessOf(given)
      .filter(({ endpoint }) => !given.deleted.has(endpoint))
      .map(({ ms }) => ms),
    lateDeleted: latenessOf(given)
      .filter(({ endpoint }) => given.deleted.has(endpoint))
      .map(({ endpoint, ms }) => ({ ms, isSure: !given.unsure.has(endpoint) })),
    waits: waits.flatMap(({ wrong }) => wrong),
    waitsCompared: waits.reduce((sum, { compared }) => sum + compared, 0),
    latestWaitMs: Math.max(0, ...waits.map(({ latestMs }) => latestMs)),
    bodies: changedBodies(evidence),
  }
}

/**
 * A request that died with a used connection is sent again on a new one, as a part of the same attempt; or not at all if the
 * shard has been given up meanwhile: then its next owner makes the attempt.
 */
function attemptsAmong(receptions: readonly SeenReception[]): SeenReception[] {
  const stale = new Map<string, SeenReception>()
  const repeated = new Map<SeenReception, SeenReception>()
  const merged = new Set<SeenReception>()
  for (const next of receptions) {
    const key = keyOf(next)
    const before = stale.get(key)
    const isRepeat = before && before.run === next.run && isOneAttempt(before, next)
    if (isRepeat) repeated.set(next, before)
    if (before && (isRepeat || before.run !== next.run)) merged.add(before)
    if (next.isStale) stale.set(key, next)
    else stale.delete(key)
  }
  return receptions
    .filter((one) => !merged.has(one))
    .map((one) => ({ ...one, at: repeated.get(one)?.at ?? one.at }))
}

/** On a busy machine the new connection may take longer; its request is identical down to the signature. */
function isOneAttempt(stale: SeenReception, next: SeenReception): boolean {
  const isSame = stale.signature !== undefined && stale.signature === next.signature
  return isSame || next.at - stale.endedAt < AGAIN_MS
}

/** The verdict on deliveries returns the objects that it was given. */
function timesOf(receptions: readonly SeenReception[]) {
  const known = new Map<object, SeenReception>(receptions.map((one) => [one, one]))
  return (one: object): SeenReception => {
    const seen = known.get(one)
    if (!seen) throw new Error('the verdict speaks of what was not received')
    return seen
  }
}

function repeatsByFault(deliveries: readonly SeenReception[][], course: Course): Map<FaultRecord, number[]> {
  const repeats = new Map<FaultRecord, number[]>()
  for (const { earlier, later } of deliveries.flatMap((one) => repeatsAmong(one))) {
    const fault = explanationOf(earlier, later, course)
    if (fault) repeats.set(fault, [...(repeats.get(fault) ?? []), Math.max(0, fault.from - earlier.endedAt)])
  }
  return repeats
}

function takenAmong(
  receptions: readonly SeenReception[],
  faults: readonly FaultRecord[],
): FleetVerdict['taken'] {
  const taken = receptions.filter(({ answer }) => answer === 'ok')
  const watched = taken.filter((one) => faultAt(one, faults) === undefined)
  return { all: taken.length, watched: watched.length }
}

function overlapsAt(receptions: readonly SeenReception[]): Overlap[] {
  const overlaps: Overlap[] = []
  const inTurn = receptions.toSorted((a, b) => a.at - b.at)
  let before: SeenReception | undefined
  for (const next of inTurn) {
    const ended = before ? Math.min(before.endedAt, before.at + ATTEMPT_MS) : 0
    if (before && ended - next.at > OVERLAP_MS)
      overlaps.push({ endpoint: next.endpoint, ids: [before.id, next.id], ms: ended - next.at })
    before = next
  }
  return overlaps
}

/** Only for requests that arrived while this program was running: those that waited during a stall say nothing. */
function latenessOf({
  receptions,
  pauses,
  stalls,
}: FleetEvidence): { endpoint: string; at: number; ms: number }[] {
  return receptions
    .filter((one) => !wasSeenLate(one, stalls))
    .flatMap(({ endpoint, at }) =>
      (pauses.get(endpoint) ?? [])
        .filter(({ from, to }) => at > from && at < to)
        .map(({ from }) => ({ endpoint, at, ms: at - from })),
    )
}

function waitsOf(
  attempts: readonly SeenReception[],
  { ordered, slow }: { ordered: ReadonlySet<string>; slow: readonly SeenReception[] },
  { faults, pauses, stalls, waitScale }: FleetEvidence,
) {
  const name = attempts[0]?.endpoint ?? ''
  const paused = pauses.get(name) ?? []
  return compareWaits(attempts, {
    ordered: ordered.has(name),
    scale: waitScale,
    mayBeLate: (from, to) =>
      faults.some((one) => one.from <= to && Math.max(settledAt(one), one.to) >= from) ||
      paused.some(({ asked, over }) => asked <= to && over >= from),
    isCrowded: (from, to) =>
      slow.some((one) => one.id !== attempts[0]?.id && one.at <= to && one.endedAt >= from),
    mayBeEarly: (before, to) =>
      before.some((one) => faultAt(one, faults) !== undefined || wasSeenLate(one, stalls)) ||
      faults.some(
        ({ kind, ...one }) => kind === CLOCK && one.from <= to && one.to + ATTEMPT_MS >= (before[0]?.at ?? 0),
      ),
  })
}

/** A delay because of a fault may last until everything is ready again. */
function settledAt({ kind, to, readyAt }: FaultRecord): number {
  return kind === CLOCK || !Number.isFinite(readyAt) ? to + ATTEMPT_MS : readyAt + ATTEMPT_MS
}

function changedBodies({ log, receptions }: FleetEvidence): string[] {
  const bodies = new Map(log.events.map(({ id, body }) => [id, body]))
  return receptions.filter(({ id, body }) => bodies.has(id) && bodies.get(id) !== body).map(keyOf)
}
