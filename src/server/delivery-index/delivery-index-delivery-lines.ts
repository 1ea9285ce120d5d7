/**
 * The log of all endpoints as lines, from what three watches tell in any mutual order:
 *
 *   a segment accepted it                       pending
 *   an outcome tells of an attempt or an end    retrying, succeeded, exhausted, canceled
 *   an object shows it                          what its status says, unless the log is ahead of that
 *   the log moved it, its object is not there   as before until the object is seen, or must have been: then no line
 *   its object is gone                          no line, unless it ended in the log: that stays as long as its segment
 *   its segment is gone, it has no object       no line
 *
 * What is shown depends on what is stored, not on the way there: another replica, or this one after a restart, shows
 * the same.
 */
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import type { Appended, LogSegment } from '../../webhooks/log/store.ts'
import { addAppended, addSegment, dropSegment } from './accepted-lines.ts'
import { OutcomeApplier, type OutcomeBatch } from './delivery-lines.ts'
import { NONE } from './line-table.ts'
import { Lines } from './lines.ts'
import { addObject, dropObject, lineOfObject, type ObjectDelivery } from './shown-lines.ts'

export type DeliveryLinesOptions = {
  /** Lines that there may be; beyond it the oldest that have ended go. */
  capacity: number
  /** More waits than can be held: everything has to be read again. */
  onLost: () => void
}

export class DeliveryLines {
  readonly lines: Lines
  readonly #told: OutcomeApplier

  constructor({ capacity, onLost }: DeliveryLinesOptions) {
    this.lines = new Lines(capacity, (line) => this.#told.forget(line))
    this.#told = new OutcomeApplier(this.lines, onLost)
  }

  get size(): number {
    return this.lines.table.size
  }

  /** Records of outcomes that wait for their segments. */
  get held(): number {
    return this.#told.held
  }

  appended(place: Appended, events: readonly AcceptedEvent[]): void {
    addAppended(this.lines, place, events)
  }

  segment(segment: LogSegment): void {
    addSegment(this.lines, segment)
  }

  /** Undefined when the segment itself was not taken in, but at most what this process appended to it. */
  segmentVersion(name: string): number | undefined {
    const segment = this.lines.segments.find(name)
    return segment?.complete ? segment.version : undefined
  }

  segmentGone(name: string): void {
    dropSegment(this.lines, name)
  }

  /** Does its work in steps. */
  segmentsSeenUpTo(version: number): IterableIterator<void> {
    return this.#told.segmentsSeenUpTo(version)
  }

  /** Each OutcomeSegment once. */
  outcomes(outcomes: OutcomeBatch): void {
    this.#told.take(outcomes)
  }

  object(shown: ObjectDelivery, version: number): void {
    const line = addObject(this.lines, shown, version)
    if (line !== NONE) this.#told.forget(line)
  }

  /** @param key `<namespace>/<name of the object>` */
  objectGone(key: string): void {
    const line = lineOfObject(this.lines, key)
    if (line !== NONE) this.objectOfLineGone(line)
  }

  /** The object of that line is gone. */
  objectOfLineGone(line: number): void {
    dropObject(this.lines, line)
  }

  objectsSeenUpTo(version: number): void {
    this.#told.objectsSeenUpTo(version)
  }
}
