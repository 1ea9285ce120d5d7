/** Which fault explains that something was done once more. */
import type { SeenReception } from '../receivers.ts'
import type { FaultRecord } from './fault-work.ts'
import type { RecordKind } from './faults.ts'

/** While one of these lasts, what a process wants to store does not get there. */
const BEFORE_THE_STORE: readonly RecordKind[] = [
  'cut',
  'deaf',
  'hold',
  'delay',
  'etcd restart',
  'API server restart',
  'no space in etcd',
]
/**
 * What takes the outcome of an attempt from Davit, or a process its work; those that say more about it first. An orderly end
 * is not among them: it stores what it knows.
 */
const BY_WEIGHT: readonly RecordKind[] = [
  'kill controller',
  'suspend controller',
  ...BEFORE_THE_STORE,
  'clock step',
  'lapse',
]
/** Those before the store, and what keeps a process from writing though its way is free. */
const KEEPS_FROM_STORE: ReadonlySet<RecordKind> = new Set([...BEFORE_THE_STORE, 'clock step', 'lapse'])
/** Outcomes that cannot be stored stop everything after five seconds; until then they may be lost together. */
export const UNSTORED_MS = 6000
/** What a fault has done to a process shows a little later. */
const SETTLED_MS = 5000
/** After which a process has reason to think that others have had its work: the wall clock says so, too, when it is set ahead. */
const STOOD_STILL: ReadonlySet<RecordKind> = new Set(['suspend controller', 'clock step'])

export function explains(kind: RecordKind): boolean {
  return BY_WEIGHT.includes(kind)
}

type Times = Pick<SeenReception, 'run' | 'at' | 'endedAt'>

/** That a life did not renew its Lease from then to then, by `performance.now()`. */
export type Silence = { life: number; from: number; to: number }

/** What was done, and who was silent for so long that others may have had all that it drove: it claims that anew. */
export type Course = { faults: readonly FaultRecord[]; silences: readonly Silence[] }

/** The fault that made the outcome of an attempt unknown to whoever came later; undefined where there is none. */
export function faultAt(
  attempt: Times,
  faults: readonly FaultRecord[],
  before = Infinity,
): FaultRecord | undefined {
  const possible = faults.filter(
    ({ kind, from, to, lives }) =>
      explains(kind) &&
      (lives === 'all' || lives.includes(attempt.run)) &&
      from <= Math.min(before, attempt.endedAt + UNSTORED_MS) &&
      to + SETTLED_MS >= attempt.at,
  )
  return possible.sort((a, b) => BY_WEIGHT.indexOf(a.kind) - BY_WEIGHT.indexOf(b.kind))[0]
}

/**
 * A process knows what it has done itself: only another one may repeat it, and only for a reason. One that stood still for longer than
 * an attempt may last may have heard the answer too late; one that was silent for so long that the others may have had its work begins
 * that anew, from what is stored.
 */
export function explanationOf(
  earlier: Times,
  later: Times,
  { faults, silences }: Course,
): FaultRecord | undefined {
  const isItsOwn =
    later.run === earlier.run &&
    !silences.some(({ life, from, to }) => life === later.run && from <= later.at && to >= earlier.at)
  if (!isItsOwn) return faultAt(earlier, faults, later.at)
  const stoodStill = faults.filter(({ kind }) => STOOD_STILL.has(kind))
  return faultAt(unstored(earlier, faults), stoodStill, later.at)
}

/** Something kept its process from storing what came of it, until then or shortly before. */
export function wasKeptFromStore(attempt: Times, until: number, faults: readonly FaultRecord[]): boolean {
  return faults.some(
    ({ kind, lives, from, to }) =>
      KEEPS_FROM_STORE.has(kind) &&
      (lives === 'all' || lives.includes(attempt.run)) &&
      from <= until &&
      to + SETTLED_MS >= attempt.endedAt,
  )
}

/** Its outcome is not stored before all that keeps its process from the store is over, one after the other. */
function unstored(attempt: Times, faults: readonly FaultRecord[]): Times {
  const between = faults.filter(
    ({ kind, lives }) => BEFORE_THE_STORE.includes(kind) && (lives === 'all' || lives.includes(attempt.run)),
  )
  let { endedAt } = attempt
  for (const { from, to } of between.toSorted((a, b) => a.from - b.from))
    if (from <= endedAt + UNSTORED_MS && to >= attempt.at) endedAt = Math.max(endedAt, to)
  return { ...attempt, endedAt }
}
