import type { Position } from '../../apis/delivery-segment.ts'
import { isFinal } from '../../webhooks/delivery/plan.ts'
import type { LoggedEvent } from '../../webhooks/log/store.ts'
import type { Source } from '../stream/position.ts'
import type { LineStatus } from './line-table.ts'

/** What the index tells of the changes that it applies, for event streams. */

/** A delivery that has changed, as it is now. */
export type DeliveryChange = {
  endpointName: string
  /** Of the event, without its prefix. */
  name: string
  type: string
  redeliveryOf: string | undefined
  status: LineStatus
  /** All attempts of a WebhookDelivery, as they are stored; of a record in the log, the one that it is about. */
  attempts: unknown
}

/** A change of a delivery. @property attempts as in `DeliveryChange` */
export type ReportedChange = {
  source: 'outcomes' | 'objects'
  position: Position
  organization: string
  attempts: unknown
}

/** Learns what the watches report, in whatever order. Positions and versions are in the order of the log. */
export interface ChangeListener {
  /** Whether it takes changes that were written at that time: milliseconds since 1970, or infinite if that is not known. */
  wants(source: Source, version: number, writtenAt: number): boolean
  /** An accepted event. `position` has its index among the events of its segment. It may be reported again at an earlier position. */
  event(position: Position, event: LoggedEvent): void
  /** A list has no order: `read` returns the state once all changes before this one have been reported; undefined if the delivery is gone. */
  delivery(change: ReportedChange, read: () => DeliveryChange | undefined): void
  /** All changes up to this version have been reported. */
  seenUpTo(source: Source, version: number): void
}

export const NO_LISTENER: ChangeListener = {
  wants: () => false,
  event: () => undefined,
  delivery: () => undefined,
  seenUpTo: () => undefined,
}

/** Whether an object says more than what was known. The time of an end does not count: a new view has its own until its status is written. */
export function saysMore({ state, attempts, at }: LineStatus, before: LineStatus | undefined): boolean {
  if (!before || state !== before.state || attempts !== before.attempts) return true
  return !isFinal(state) && !Object.is(at, before.at)
}
