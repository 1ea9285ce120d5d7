import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { CancelReason, DeliveryAttempt } from '../../apis/webhook-delivery.ts'

/**
 * What the records of a delivery say together: one rule for every reader of the log. Neither their order nor a repetition changes the
 * result, since watches and lists have orders of their own, and a segment whose write had no answer may be in the log under two names.
 * Records of an owner that had lost the shard are void (fencing.ts) and must not come here.
 */

/** How a delivery ended according to the log; `exhausted`: its last attempt failed. */
export type LogEnd = 'none' | 'sent' | 'exhausted' | 'canceled'

/** What every reader keeps of an attempt. */
type Started = { at: string }

/** @typeParam A what this reader keeps of an attempt */
export type LogState<A extends Started = DeliveryAttempt> = {
  /** Each once, oldest first. */
  readonly failed: readonly A[]
  readonly sent?: A
  /** When the next one is due, milliseconds since 1970; 0 if that is not known. */
  readonly nextAttemptAt: number
  readonly end: LogEnd
  /** Of the segment with the end. */
  readonly endVersion: number
  /** Why it was canceled. */
  readonly reason?: CancelReason
  /** Its WebhookDelivery still has to be written. */
  readonly owesObject: boolean
  /** Its WebhookDelivery was about to be created. */
  readonly creating: boolean
  /** Its WebhookDelivery has the state. */
  readonly moved: boolean
}

/** A delivery that no record speaks of. */
export const NO_RECORDS: LogState<never> = {
  failed: [],
  nextAttemptAt: 0,
  end: 'none',
  endVersion: 0,
  owesObject: false,
  creating: false,
  moved: false,
}

/**
 * The state with one more record. Attempts are a set by the time of their start, and of several ends the first in the log stands.
 * @param version of the segment with the record @param keep what the reader keeps of an attempt
 * @returns `state` itself if the record changes nothing
 */
export function fold<A extends Started>(
  state: LogState<A>,
  { record, version }: { record: OutcomeRecord; version: number },
  keep: (attempt: DeliveryAttempt) => A,
): LogState<A> {
  switch (record.kind) {
    case 'ended':
    case 'begin':
      return state
    case 'creating':
      return state.creating ? state : { ...state, creating: true }
    case 'moved':
      return state.moved ? state : { ...state, moved: true }
    case 'canceled':
      return isFirst(state, version)
        ? { ...withEnd(state, 'canceled', version), reason: record.reason }
        : state
    case 'sent': {
      if (!isFirst(state, version)) return state
      return { ...withEnd(state, 'sent', version), sent: keep(record.attempt), owesObject: record.object }
    }
    case 'failed': {
      const { attempt, nextAttemptAt } = record
      const next = withFailed(state, attempt, nextAttemptAt, keep)
      if (nextAttemptAt > 0 || !isFirst(state, version)) return next
      return { ...withEnd(next, 'exhausted', version), owesObject: true }
    }
  }
}

function withFailed<A extends Started>(
  state: LogState<A>,
  attempt: DeliveryAttempt,
  nextAttemptAt: number,
  keep: (attempt: DeliveryAttempt) => A,
): LogState<A> {
  if (state.failed.some(({ at }) => at === attempt.at)) return state
  return {
    ...state,
    failed: [...state.failed, keep(attempt)].sort((a, b) => Date.parse(a.at) - Date.parse(b.at)),
    nextAttemptAt: Math.max(state.nextAttemptAt, nextAttemptAt),
    owesObject: state.owesObject || state.end === 'none',
  }
}

/** Whether an end in this segment comes before the one that is known, if any. */
function isFirst({ end, endVersion }: LogState<Started>, version: number): boolean {
  return end === 'none' || version < endVersion
}

function withEnd<A extends Started>(state: LogState<A>, end: LogEnd, endVersion: number): LogState<A> {
  const { sent: _, reason: __, ...rest } = state
  return { ...rest, end, endVersion, owesObject: false }
}

export function attemptsOf<A extends Started>({ failed, sent }: LogState<A>): readonly A[] {
  return sent === undefined ? failed : [...failed, sent]
}

/** Whether the log has nothing to do any more: it has the end, or the object exists. */
export function isClosed({ moved, end, owesObject }: LogState<Started>): boolean {
  return moved || end === 'canceled' || (end === 'sent' && !owesObject)
}

/** Whether the record ends the delivery, though its object may still be owed. A last attempt has no next one. */
export function endsDelivery(record: OutcomeRecord): boolean {
  if (record.kind === 'failed') return record.nextAttemptAt === 0
  return record.kind === 'sent' || record.kind === 'canceled'
}
