/**
 * The lines of all endpoints with everything that refers to them: counts by state, offsets in the log, and names of OutcomeSegments.
 * line-updates.ts decides what a line says.
 */
import type { Position } from '../../apis/delivery-segment.ts'
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { copyString } from '../../lib/text.ts'
import { isFinal } from '../../webhooks/delivery/plan.ts'
import { OpenBodies } from '../../webhooks/events/open-bodies.ts'
import { type EndpointLog, EndpointLogs } from './endpoint-logs.ts'
import {
  countEnded,
  type LineStatus,
  LineTable,
  NONE,
  PACKED_WORDS,
  type PackedId,
  STATES,
} from './line-table.ts'

export type IndexedSegment = {
  readonly number: number
  readonly name: string
  readonly version: number
  /** Lines by index: NONE if there is none (any more), UNKNOWN before the entry was seen. */
  lines: number[] | Uint32Array
  /** Lines of events, not of their deliveries. */
  readonly events: Set<number>
  /** The whole segment was seen, not only what this process appended to it. */
  complete: boolean
}

export const UNKNOWN = NONE - 1

/** Larger segments use a typed array; for smaller ones its own overhead costs more than it saves. */
const SMALL_SEGMENT = 16

/** Maps offsets in the log to lines, segment by segment. */
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

  lineAt({ version, index }: Position): number {
    const line = this.#byVersion.get(version)?.lines[index]
    return line === undefined || line === UNKNOWN ? NONE : line
  }

  findOrAdd(name: string, version: number, count: number): IndexedSegment {
    const held = this.#byName.get(name)
    if (held) {
      if (held.lines.length < count) held.lines = offsetTable(count, held.lines)
      return held
    }
    const segment: IndexedSegment = {
      number: this.#free.pop() ?? this.#byNumber.length,
      name: copyString(name),
      version,
      lines: offsetTable(count, []),
      events: new Set(),
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

function offsetTable(count: number, held: ArrayLike<number>): number[] | Uint32Array {
  const table: number[] | Uint32Array =
    count < SMALL_SEGMENT ? new Array<number>(count).fill(UNKNOWN) : new Uint32Array(count).fill(UNKNOWN)
  for (let index = 0; index < held.length; index += 1) table[index] = held[index] ?? UNKNOWN
  return table
}

/** Names of OutcomeSegments, reference-counted and each stored once. */
class OutcomeNames {
  readonly #names: ({ name: string; references: number } | undefined)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#names.length - this.#free.length
  }

  /** Assigns a number to the name. Every `hold` needs a `release`. */
  add(name: string): number {
    const number = this.#free.pop() ?? this.#names.length
    this.#names[number] = { name: copyString(name), references: 0 }
    return number
  }

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

/** What a new line says. */
export type LineContent = {
  type: string
  redeliveryOf?: string | undefined
  bodyBytes: number
  /** Whether other deliveries may have the same body. */
  sharesBody: boolean
}

/** One line of so many is evicted at once. */
const LINES_PER_EVICTION = 1000

export class Lines {
  readonly table: LineTable
  readonly logs: EndpointLogs
  readonly segments = new IndexedSegments()
  readonly outcomes = new OutcomeNames()
  /** Of lines that have not ended. */
  readonly bodies = new OpenBodies()
  /** Lines that were evicted or did not fit, since the start. */
  dropped = 0
  /** For lines with several outcomes: all but the newest. */
  readonly #olderOutcomes = new Map<number, number[]>()
  readonly #redeliveries = new Map<number, string>()
  readonly #types: string[] = []
  readonly #typeNumbers = new Map<string, number>()
  /** Called before the number of the line may be reused. */
  readonly #onRemoved: (line: number) => void

  constructor(capacity: number, onRemoved: (line: number) => void) {
    this.table = new LineTable(capacity)
    this.logs = new EndpointLogs(this.table)
    this.#onRemoved = onRemoved
  }

  /** Adds a pending line; NONE if there is no space. The log must not have this id yet. */
  add(
    wanted: EndpointLog,
    id: PackedId,
    { type, redeliveryOf, bodyBytes: bytes, sharesBody }: LineContent,
  ): number {
    if (this.table.full && !this.#evict()) {
      this.dropped += 1
      this.logs.dropIfEmpty(wanted)
      return NONE
    }
    // Eviction may have removed the last line of this log, and with it the log.
    const log = this.logs.findOrAdd(wanted.namespace, wanted.uid, wanted.name)
    const line = this.table.allocate(id, { log: log.number, type: this.#typeNumber(type), bytes, sharesBody })
    log.lines.add(line)
    count(log, 'pending', 1)
    this.#countBody(log, line, 'open')
    if (redeliveryOf !== undefined) this.#redeliveries.set(line, copyString(redeliveryOf))
    return line
  }

  remove(line: number): void {
    this.#onRemoved(line)
    const log = this.logs.of(line)
    this.forgetLog(line)
    this.#redeliveries.delete(line)
    if (log) {
      const { state } = this.table.status(line)
      count(log, state, -1)
      if (!isFinal(state)) this.#countBody(log, line, 'ended')
      log.lines.remove(line)
    }
    this.table.release(line)
    if (log) this.logs.dropIfEmpty(log)
  }

  /** Drops what the log said about the line. */
  forgetLog(line: number): void {
    const segment = this.segments.at(this.table.segment(line))
    if (segment && !segment.events.delete(line)) segment.lines[this.table.indexInSegment(line)] = NONE
    const newest = this.table.outcomes(line)
    if (newest !== NONE) this.outcomes.release(newest)
    for (const older of this.#olderOutcomes.get(line) ?? []) this.outcomes.release(older)
    this.#olderOutcomes.delete(line)
    this.table.setOutcomes(line, NONE)
    this.table.setOffset(line, NONE, 0)
    this.table.setLogOutcome(line, { end: 'none', attempts: 0, endVersion: 0 })
    this.table.setMoved(line, false)
  }

  setOffset(line: number, segment: IndexedSegment, index: number): void {
    this.table.setOffset(line, segment.number, index)
    segment.lines[index] = line
  }

  setEvent(line: number, segment: IndexedSegment): void {
    this.table.setOffset(line, segment.number, 0)
    segment.events.add(line)
  }

  setStatus(line: number, status: LineStatus): void {
    const log = this.logs.of(line)
    const before = this.table.status(line).state
    this.table.setStatus(line, status)
    if (!log || before === status.state) return
    count(log, before, -1)
    count(log, status.state, 1)
    if (isFinal(before) !== isFinal(status.state))
      this.#countBody(log, line, isFinal(before) ? 'open' : 'ended')
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

  outcomesOf(line: number): string[] {
    const numbers = [this.table.outcomes(line), ...(this.#olderOutcomes.get(line) ?? [])]
    const names = numbers.map((number) => this.outcomes.name(number))
    return [...new Set(names.filter((name) => name !== undefined))]
  }

  typeOf(line: number): string {
    return this.#types[this.table.type(line)] ?? ''
  }

  typeNumber(type: string): number | undefined {
    return this.#typeNumbers.get(type)
  }

  redeliveryOf(line: number): string | undefined {
    return this.#redeliveries.get(line)
  }

  #countBody(log: EndpointLog, line: number, now: 'open' | 'ended'): void {
    const bytes = this.table.bodyBytes(line)
    const body = { id: this.table.sharesBody(line) ? this.table.name(line) : undefined, bytes }
    log.openBytes += now === 'open' ? bytes : -bytes
    if (now === 'open') this.bodies.add(log.namespace, body)
    else this.bodies.remove(log.namespace, body)
  }

  #typeNumber(type: string): number {
    const known = this.#typeNumbers.get(type)
    if (known !== undefined) return known
    const own = copyString(type)
    this.#types.push(own)
    this.#typeNumbers.set(own, this.#types.length - 1)
    return this.#types.length - 1
  }

  /** Removes the oldest ended lines of the endpoint that has the most of them, so that none crowds out the others. */
  #evict(): boolean {
    let fullest: EndpointLog | undefined
    let most = 0
    for (const log of this.logs.values()) {
      const ended = countEnded(log.counts)
      if (ended > most) [fullest, most] = [log, ended]
    }
    if (!fullest) return false
    const wanted = Math.max(1, Math.floor(this.table.capacity / LINES_PER_EVICTION))
    const evicted: number[] = []
    fullest.lines.walkOldest((line) => {
      if (isFinal(this.table.status(line).state)) evicted.push(line)
      return evicted.length < wanted
    })
    const floor = new Uint32Array(PACKED_WORDS)
    this.table.copyId(evicted.at(-1) ?? NONE, floor)
    fullest.floor = floor
    for (const line of evicted) this.remove(line)
    this.dropped += evicted.length
    return evicted.length > 0
  }
}

function count(log: EndpointLog, state: DeliveryState, by: number): void {
  const number = STATES.indexOf(state)
  log.counts[number] = (log.counts[number] ?? 0) + by
}
