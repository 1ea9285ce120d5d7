import type { Position } from '../../apis/delivery-segment.ts'
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { copyString } from '../../lib/text.ts'
import { isFinal } from '../../webhooks/delivery/status.ts'
import { type EndpointLog, EndpointLogs } from './endpoint-logs.ts'
import { endedIn, LineTable, NONE, PACKED_WORDS, type PackedId, STATES, type Standing } from './line-table.ts'

/** Which line stands for which place in the log, segment by segment. */

export type IndexedSegment = {
  readonly number: number
  readonly name: string
  readonly version: number
  /** Lines by index: NONE where there is none (any more), UNKNOWN before it was seen. */
  lines: number[] | Uint32Array
  /** The segment itself was seen, not only what this process appended to it. */
  complete: boolean
}

export const UNKNOWN = NONE - 1

/** From so many on numbers are kept without what an array costs for each. */
const MANY = 16

class IndexedSegments {
  readonly #byName = new Map<string, IndexedSegment>()
  readonly #byVersion = new Map<number, IndexedSegment>()
  readonly #byNumber: (IndexedSegment | undefined)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#byName.size
  }

  names(): IterableIterator<string> {
    return this.#byName.keys()
  }

  find(name: string): IndexedSegment | undefined {
    return this.#byName.get(name)
  }

  at(number: number): IndexedSegment | undefined {
    return this.#byNumber[number]
  }

  /** Line of a place in the log; NONE where there is none. */
  lineAt({ version, index }: Position): number {
    const line = this.#byVersion.get(version)?.lines[index]
    return line === undefined || line === UNKNOWN ? NONE : line
  }

  /** @param count how many places it has at least */
  findOrAdd(name: string, version: number, count: number): IndexedSegment {
    const held = this.#byName.get(name)
    if (held) {
      if (held.lines.length < count) held.lines = placesOf(count, held.lines)
      return held
    }
    const segment: IndexedSegment = {
      number: this.#free.pop() ?? this.#byNumber.length,
      name: copyString(name),
      version,
      lines: placesOf(count, []),
      complete: false,
    }
    this.#byNumber[segment.number] = segment
    this.#byName.set(segment.name, segment)
    this.#byVersion.set(version, segment)
    return segment
  }

  remove(segment: IndexedSegment): void {
    this.#byNumber[segment.number] = undefined
    this.#free.push(segment.number)
    this.#byName.delete(segment.name)
    this.#byVersion.delete(segment.version)
  }
}

function placesOf(count: number, held: ArrayLike<number>): number[] | Uint32Array {
  const places: number[] | Uint32Array =
    count < MANY ? new Array<number>(count).fill(UNKNOWN) : new Uint32Array(count).fill(UNKNOWN)
  for (let index = 0; index < held.length; index += 1) places[index] = held[index] ?? UNKNOWN
  return places
}

/** Names of the OutcomeSegments that lines refer to, each held once and for as long as one does. */

type Held = { name: string; references: number }

class OutcomeNames {
  readonly #names: (Held | undefined)[] = []
  readonly #free: number[] = []

  /** Names held. */
  get size(): number {
    return this.#names.length - this.#free.length
  }

  /** A number for the name; each `hold` of it needs its `release`. */
  add(name: string): number {
    const number = this.#free.pop() ?? this.#names.length
    this.#names[number] = { name: copyString(name), references: 0 }
    return number
  }

  /** Undefined when nothing refers to it. */
  name(number: number): string | undefined {
    return this.#names[number]?.name
  }

  hold(number: number): void {
    const held = this.#names[number]
    if (held) held.references += 1
  }

  release(number: number): void {
    const held = this.#names[number]
    if (!held) return
    held.references -= 1
    if (held.references > 0) return
    this.#names[number] = undefined
    this.#free.push(number)
  }
}

/**
 * The lines of all endpoints, with what hangs on them: the order in each log, counts by state, places in the log,
 * names of outcomes. What a line says is decided by those who call.
 */

export type NewLine = { type: string; redeliveryOf?: string | undefined }

/** Lines that make room for new ones at a time, of a thousand that there may be. */
const EVICTED_OF_THOUSAND = 1

export class Lines {
  readonly table: LineTable
  readonly logs: EndpointLogs
  readonly segments = new IndexedSegments()
  readonly outcomes = new OutcomeNames()
  /** Lines that were left out for want of room, since the start. */
  dropped = 0
  /** Of lines with several outcomes those before the newest. */
  readonly #olderOutcomes = new Map<number, number[]>()
  readonly #redeliveries = new Map<number, string>()
  readonly #types: string[] = []
  readonly #typeNumbers = new Map<string, number>()
  /** Told before the line's number may stand for another one. */
  readonly #onRemoved: (line: number) => void

  constructor(capacity: number, onRemoved: (line: number) => void) {
    this.table = new LineTable(capacity)
    this.logs = new EndpointLogs(this.table)
    this.#onRemoved = onRemoved
  }

  /** A pending line; NONE when there is no room. The log must have none of this id. */
  add(wanted: EndpointLog, id: PackedId, { type, redeliveryOf }: NewLine): number {
    if (this.table.full && !this.#makeRoom()) {
      this.dropped += 1
      this.logs.dropIfEmpty(wanted)
      return NONE
    }
    // Making room may have taken the last line of its log.
    const log = this.logs.findOrAdd(wanted.namespace, wanted.uid)
    const line = this.table.allocate(id, log.number, this.#numberOf(type))
    log.lines.add(line)
    count(log, 'pending', 1)
    if (redeliveryOf !== undefined) this.#redeliveries.set(line, copyString(redeliveryOf))
    return line
  }

  remove(line: number): void {
    this.#onRemoved(line)
    const log = this.logs.of(line)
    this.forgetLog(line)
    this.#redeliveries.delete(line)
    if (log) {
      count(log, this.table.standing(line).state, -1)
      log.lines.remove(line)
    }
    this.table.release(line)
    if (log) this.logs.dropIfEmpty(log)
  }

  /** The log tells nothing of the line any more. */
  forgetLog(line: number): void {
    const segment = this.segments.at(this.table.segment(line))
    if (segment) segment.lines[this.table.indexInSegment(line)] = NONE
    const newest = this.table.outcomes(line)
    if (newest !== NONE) this.outcomes.release(newest)
    for (const older of this.#olderOutcomes.get(line) ?? []) this.outcomes.release(older)
    this.#olderOutcomes.delete(line)
    this.table.setOutcomes(line, NONE)
    this.table.setPlace(line, NONE, 0)
    this.table.setLogKnowledge(line, 'none', 0)
    this.table.setMoved(line, false)
  }

  setPlace(line: number, segment: IndexedSegment, index: number): void {
    this.table.setPlace(line, segment.number, index)
    segment.lines[index] = line
  }

  setStanding(line: number, standing: Standing): void {
    const log = this.logs.of(line)
    const before = this.table.standing(line).state
    this.table.setStanding(line, standing)
    if (!log || before === standing.state) return
    count(log, before, -1)
    count(log, standing.state, 1)
    log.lines.stateChanged(line)
  }

  addOutcomes(line: number, number: number): void {
    const held = this.table.outcomes(line)
    this.outcomes.hold(number)
    this.table.setOutcomes(line, number)
    if (held === NONE) return
    const older = this.#olderOutcomes.get(line)
    if (older) older.push(held)
    else this.#olderOutcomes.set(line, [held])
  }

  /** Names of the OutcomeSegments that tell of attempts of the line. */
  outcomesOf(line: number): string[] {
    const numbers = [this.table.outcomes(line), ...(this.#olderOutcomes.get(line) ?? [])]
    const names = numbers.map((number) => this.outcomes.name(number))
    return [...new Set(names.filter((name) => name !== undefined))]
  }

  typeOf(line: number): string {
    return this.#types[this.table.type(line)] ?? ''
  }

  /** Undefined when no line has been of this type. */
  typeNumber(type: string): number | undefined {
    return this.#typeNumbers.get(type)
  }

  redeliveryOf(line: number): string | undefined {
    return this.#redeliveries.get(line)
  }

  #numberOf(type: string): number {
    const known = this.#typeNumbers.get(type)
    if (known !== undefined) return known
    const own = copyString(type)
    this.#types.push(own)
    this.#typeNumbers.set(own, this.#types.length - 1)
    return this.#types.length - 1
  }

  /** Takes the oldest that have ended from the endpoint with the most of them: nobody's log pushes out another's. */
  #makeRoom(): boolean {
    let fullest: EndpointLog | undefined
    let most = 0
    for (const log of this.logs.values()) {
      const ended = endedIn(log.counts)
      if (ended > most) [fullest, most] = [log, ended]
    }
    if (!fullest) return false
    const wanted = Math.max(1, Math.floor((this.table.capacity * EVICTED_OF_THOUSAND) / 1000))
    const going: number[] = []
    fullest.lines.walkOldest((line) => {
      if (isFinal(this.table.standing(line).state)) going.push(line)
      return going.length < wanted
    })
    const floor = new Uint32Array(PACKED_WORDS)
    this.table.copyId(going.at(-1) ?? NONE, floor)
    fullest.floor = floor
    for (const line of going) this.remove(line)
    this.dropped += going.length
    return going.length > 0
  }
}

function count(log: EndpointLog, state: DeliveryState, by: number): void {
  const number = STATES.indexOf(state)
  log.counts[number] = (log.counts[number] ?? 0) + by
}
