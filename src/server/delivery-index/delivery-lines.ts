/**
 * What records of outcomes say of lines. They may come in any order, each once: the watches of segments, outcomes and
 * objects have no mutual order, and a list is in the order of names.
 */
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import { MAX_ATTEMPTS } from '../../webhooks/delivery/retry-schedule.ts'
import { NONE } from './line-table.ts'
import type { Lines } from './lines.ts'
import { stateOf } from './shown-lines.ts'

/** The records of an OutcomeSegment. `writtenAt` in milliseconds since 1970. */
export type OutcomeBatch = {
  name: string
  version: number
  writtenAt: number
  records: readonly OutcomeRecord[]
}

type AttemptRecord = Extract<OutcomeRecord, { kind: 'sent' | 'failed' }>

/** Records that may wait for the segments that they speak of: a watch that is cut off for minutes at full load. */
const MAX_HELD = 200_000

export class OutcomeApplier {
  readonly #lines: Lines
  readonly #onLost: () => void
  /** Every segment up to this version was seen. */
  #seen = 0
  #held: { newest: number; outcomes: OutcomeBatch }[] = []
  #heldRecords = 0
  /** Lines that an object has, by the log's word, and that has not been seen: with the version of that word. */
  readonly #awaited = new Map<number, number>()

  /** @param onLost more records wait than can be held: everything has to be read again */
  constructor(lines: Lines, onLost: () => void) {
    this.#lines = lines
    this.#onLost = onLost
  }

  /** Records that wait for their segments. */
  get held(): number {
    return this.#heldRecords
  }

  /** Each OutcomeSegment once. */
  take(outcomes: OutcomeBatch): void {
    const newest = newestPosition(outcomes)
    if (newest <= this.#seen) {
      this.#tell(outcomes)
      return
    }
    this.#heldRecords += outcomes.records.length
    if (this.#heldRecords > MAX_HELD) this.#onLost()
    else this.#held.push({ newest, outcomes })
  }

  /** Every segment up to this version was taken in. Tells in steps what waited for that. */
  *segmentsSeenUpTo(version: number): IterableIterator<void> {
    this.#seen = Math.max(this.#seen, version)
    if (this.#held.length === 0) return
    const held = this.#held
    this.#held = []
    for (const { newest, outcomes } of held) {
      if (newest > this.#seen) this.#held.push({ newest, outcomes })
      else {
        this.#heldRecords -= outcomes.records.length
        yield this.#tell(outcomes)
      }
    }
  }

  /** Every object up to this version was taken in, so that one that was awaited by then is gone again. */
  objectsSeenUpTo(version: number): void {
    for (const [line, told] of this.#awaited) {
      if (told > version) return
      this.#awaited.delete(line)
      this.#lines.remove(line)
    }
  }

  /** The line's object was seen, or the line is gone. */
  forget(line: number): void {
    this.#awaited.delete(line)
  }

  #tell({ name, version, writtenAt, records }: OutcomeBatch): void {
    const number = this.#lines.outcomes.add(name)
    this.#lines.outcomes.hold(number)
    for (const record of records) {
      const line = this.#lines.segments.lineAt(record.position)
      if (line === NONE) continue
      if (record.kind === 'moved') this.#moved(line, version)
      else if (record.kind === 'canceled') this.#canceled(line, record.reason === 'Duplicate', writtenAt)
      else if (record.kind === 'sent' || record.kind === 'failed') this.#attempted(line, record, number)
    }
    this.#lines.outcomes.release(number)
  }

  #moved(line: number, version: number): void {
    const { table } = this.#lines
    table.setMoved(line, true)
    if (!table.hasObject(line) && table.logEnd(line) === 'none') this.#awaited.set(line, version)
  }

  #canceled(line: number, isDuplicate: boolean, writtenAt: number): void {
    const { table } = this.#lines
    const hasObject = table.hasObject(line)
    if (isDuplicate) {
      // Nobody was told of this place: the key's first one is the delivery.
      if (hasObject) this.#lines.forgetLog(line)
      else this.#lines.remove(line)
      return
    }
    const attempts = table.logAttempts(line)
    this.#awaited.delete(line)
    table.setLogKnowledge(line, 'canceled', attempts)
    if (!hasObject) this.#lines.setStanding(line, { state: 'canceled', attempts, at: writtenAt })
  }

  #attempted(line: number, record: AttemptRecord, outcomes: number): void {
    const { table } = this.#lines
    this.#lines.addOutcomes(line, outcomes)
    const attempts = Math.min(MAX_ATTEMPTS, table.logAttempts(line) + 1)
    const end = endOf(record)
    const known = end === 'none' ? table.logEnd(line) : end
    table.setLogKnowledge(line, known, attempts)
    if (known !== 'none') this.#awaited.delete(line)
    const before = table.standing(line)
    // An object that has got as far, or ended, says it better.
    if (table.hasObject(line) && (table.objectEnded(line) || before.attempts >= attempts)) return
    if (known === 'none') {
      const at = latest(before.at, nextOf(record))
      this.#lines.setStanding(line, { state: 'retrying', attempts, at })
    } else {
      const at = end === 'none' ? before.at : endedAt(record)
      this.#lines.setStanding(line, { state: stateOf(known), attempts, at })
    }
  }
}

/** Not one that the segment of outcomes cannot know of yet: it would wait for ever. */
function newestPosition({ version, records }: OutcomeBatch): number {
  let newest = 0
  for (const { position } of records)
    if (position.version < version) newest = Math.max(newest, position.version)
  return newest
}

/** After the last attempt there is no next one. */
function endOf(record: AttemptRecord): 'sent' | 'exhausted' | 'none' {
  if (record.kind === 'sent') return 'sent'
  return record.nextAttemptAt === 0 ? 'exhausted' : 'none'
}

function endedAt({ attempt }: AttemptRecord): number {
  return Date.parse(attempt.at) + attempt.latencyMs
}

function nextOf(record: AttemptRecord): number {
  return record.kind === 'failed' ? record.nextAttemptAt : Number.NaN
}

/** NaN is no time. */
function latest(a: number, b: number): number {
  return Number.isNaN(a) || b > a ? b : a
}
