/**
 * The lines of all endpoints, with what hangs on them: the order in each log, counts by state, places in the log,
 * names of outcomes. What a line says is decided by those who call.
 */
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { copyString } from '../../lib/own-text.ts'
import { isFinal } from '../../webhooks/delivery/status.ts'
import { type EndpointLog, EndpointLogs } from './delivery-index-endpoint-logs.ts'
import { endedIn, LineTable, NONE, STATES, type Standing } from './line-table.ts'
import { OutcomeNames } from './outcome-names.ts'
import { PACKED_WORDS, type PackedId } from './packed-id.ts'
import { type IndexedSegment, IndexedSegments } from './segment-places.ts'

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
