/** Finds the fault that explains a repetition. */
import type { SeenReception } from '../receivers.ts'
import type { FaultRecord } from './fault-work.ts'
import type { RecordKind } from './faults.ts'

/** During one of these, writes of a process do not reach the store. */
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
 * Faults that cost Davit the outcome of an attempt, or a process its work, most telling first. An orderly end is not among them:
 * it stores everything it knows.
 */
const BY_WEIGHT: readonly RecordKind[] = [
  'kill controller',
  'suspend controller',
  ...BEFORE_THE_STORE,
  'clock step',
  'lapse',
]
/** Faults in front of the store, and those that keep a process from writing although its connection works. */
const KEEPS_FROM_STORE: ReadonlySet<RecordKind> = new Set([...BEFORE_THE_STORE, 'clock step', 'lapse'])
/** A process stops when outcomes could not be stored for five seconds; until then they may all be lost. */
export const UNSTORED_MS = 6000
/** The effect of a fault on a process may show a little later. */
const SETTLED_MS = 5000
/** After these, a process assumes that others have had its work: a clock that is set ahead has that effect, too. */
const STOOD_STILL: ReadonlySet<RecordKind> = new Set(['suspend controller', 'clock step'])

export function explains(kind: RecordKind): boolean {
  return BY_WEIGHT.includes(kind)
}

type Times = Pick<SeenReception, 'run' | 'at' | 'endedAt'>

/** A period in which a life did not renew its Lease, by `performance.now()`. */
export type Silence = { life: number; from: number; to: number }

/** The faults, and lives that were silent for so long that others may have taken over their work: they claim it again. */
export type Course = { faults: readonly FaultRecord[]; silences: readonly Silence[] }

/** The fault that made the outcome of an attempt unknown to later processes; undefined if there is none. */
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
 * A process knows its own work: only another one may repeat it, and only for a reason. A process that was suspended for longer
 * than an attempt may have received the answer too late; one that was silent for so long that the others may have taken over
 * starts again from what is stored.
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

/** Whether something kept a process from storing an outcome, until then or shortly before. */
export function wasKeptFromStore(attempt: Times, until: number, faults: readonly FaultRecord[]): boolean {
  return faults.some(
    ({ kind, lives, from, to }) =>
      KEEPS_FROM_STORE.has(kind) &&
      (lives === 'all' || lives.includes(attempt.run)) &&
      from <= until &&
      to + SETTLED_MS >= attempt.endedAt,
  )
}

/** An outcome is stored only after all consecutive faults that keep its process from the store are over. */
function unstored(attempt: Times, faults: readonly FaultRecord[]): Times {
  const between = faults.filter(
    ({ kind, lives }) => BEFORE_THE_STORE.includes(kind) && (lives === 'all' || lives.includes(attempt.run)),
  )
  let { endedAt } = attempt
  for (const { from, to } of between.toSorted((a, b) => a.from - b.from))
    if (from <= endedAt + UNSTORED_MS && to >= attempt.at) endedAt = Math.max(endedAt, to)
  return { ...attempt, endedAt }
}
