/**
 * The lines of all endpoints with everything that refers to them: their order per endpoint, counts by state, offsets in the log, and
 * names of OutcomeSegments. line-updates.ts decides what a line says.
 */
import type { Position } from '../../apis/delivery-segment.ts'
import { endpointTag } from '../../apis/ids.ts'
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { copyString } from '../../lib/text.ts'
import { isFinal } from '../../webhooks/delivery/delivery-state.ts'
import { OpenBodies } from '../../webhooks/events/open-bodies.ts'
import {
  countEnded,
  type LineStatus,
  LineTable,
  NONE,
  PACKED_WORDS,
  type PackedId,
  STATES,
} from './line-table.ts'

/**
 * Oldest first, so that new lines come last. `states`: a bit for each state that a line of the block may have. `types`: the same for event
 * types, several of which share a bit.
 */
type Block = { lines: Uint32Array; size: number; states: number; types: number }

type WantedLines = { state?: number | undefined; type?: number | undefined }

const TYPE_BITS = 32
const ANY = -1

const MIN_BLOCK = 4
const MAX_BLOCK = 512

type Visit = (line: number) => boolean

/**
 * The lines of an endpoint in the order of their ids, in small blocks: a new line is nearly always the newest and is appended, and
 * inserting or removing a line anywhere moves at most one block.
 */
export class SortedLines {
  readonly #table: LineTable
  #blocks: Block[] = []
  #size = 0
  /** The position that `#locate` found last. */
  #block = 0
  #index = 0
  readonly #id = new Uint32Array(PACKED_WORDS)

  constructor(table: LineTable) {
    this.#table = table
  }

  get size(): number {
    return this.#size
  }

  get bytes(): number {
    return this.#blocks.reduce((sum, { lines }) => sum + lines.byteLength, 0)
  }

  find(id: PackedId): number {
    this.#locate(id)
    const line = this.#blocks[this.#block]?.lines[this.#index]
    return line !== undefined && this.#isHere(line) && this.#table.compare(line, id) === 0 ? line : NONE
  }

  add(line: number): void {
    this.#table.copyId(line, this.#id)
    this.#locate(this.#id)
    const last = this.#blocks.length - 1
    if (this.#block > last && last >= 0) {
      this.#block = last
      this.#index = this.#blocks[last]?.size ?? 0
    }
    this.#insert(line)
    this.#size += 1
  }

  remove(line: number): void {
    this.#table.copyId(line, this.#id)
    this.#locate(this.#id)
    const block = this.#blocks[this.#block]
    if (!block || block.lines[this.#index] !== line) return
    block.lines.copyWithin(this.#index, this.#index + 1, block.size)
    block.size -= 1
    this.#size -= 1
    if (block.size === 0) this.#blocks.splice(this.#block, 1)
  }

  stateChanged(line: number): void {
    this.#table.copyId(line, this.#id)
    this.#locate(this.#id)
    const block = this.#blocks[this.#block]
    if (block) block.states |= 1 << this.#table.stateNumber(line)
  }

  /**
   * Visits lines from the newest, or the first that is older than `after`, to the oldest. Lines must not change meanwhile.
   * @param wanted blocks that have no such line are skipped; all lines of the others are visited
   */
  walk(after: PackedId | undefined, visit: Visit, wanted: WantedLines = {}): void {
    this.#block = this.#blocks.length
    this.#index = 0
    if (after) this.#locate(after)
    const states = wanted.state === undefined ? ANY : 1 << wanted.state
    const types = wanted.type === undefined ? ANY : typeBit(wanted.type)
    for (let number = this.#block; number >= 0; number -= 1) {
      const block = this.#blocks[number]
      if (!block || (block.states & states) === 0 || (block.types & types) === 0) continue
      if (!this.#walkBlock(block, number === this.#block ? this.#index : block.size, visit)) return
    }
  }

  #walkBlock(block: Block, from: number, visit: Visit): boolean {
    let [states, types] = [0, 0]
    for (let index = from - 1; index >= 0; index -= 1) {
      const line = block.lines[index] ?? NONE
      states |= 1 << this.#table.stateNumber(line)
      types |= typeBit(this.#table.type(line))
      if (!visit(line)) return false
    }
    // Bits are only ever set while lines change and go; a walk over the whole block has seen which are still right.
    if (from === block.size) [block.states, block.types] = [states, types]
    return true
  }

  /** Visits lines from the oldest. Lines must not change meanwhile. */
  walkOldest(visit: Visit): void {
    for (const block of this.#blocks) {
      for (let index = 0; index < block.size; index += 1) if (!visit(block.lines[index] ?? NONE)) return
    }
  }

  /** Beyond the size of a block there are leftovers of earlier lines. */
  #isHere(line: number): boolean {
    return line !== NONE && this.#index < (this.#blocks[this.#block]?.size ?? 0)
  }

  /** Finds the position of the oldest line that is not older than `id`. */
  #locate(id: PackedId): void {
    let [low, high] = [0, this.#blocks.length]
    const last = this.#blocks[high - 1]
    if (last && this.#table.compare(last.lines[last.size - 1] ?? NONE, id) > 0) low = high
    while (low < high) {
      const middle = (low + high) >> 1
      const block = this.#blocks[middle]
      const newest = block?.lines[block.size - 1] ?? NONE
      if (this.#table.compare(newest, id) > 0) low = middle + 1
      else high = middle
    }
    this.#block = low
    this.#index = this.#indexIn(this.#blocks[low], id)
  }

  #indexIn(block: Block | undefined, id: PackedId): number {
    let [low, high] = [0, block?.size ?? 0]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#table.compare(block?.lines[middle] ?? NONE, id) > 0) low = middle + 1
      else high = middle
    }
    return low
  }

  #insert(line: number): void {
    let block = this.#blocks[this.#block]
    if (!block) {
      block = { lines: new Uint32Array(MIN_BLOCK), size: 0, states: 0, types: 0 }
      this.#blocks.push(block)
    }
    if (block.size === block.lines.length) {
      if (block.size < MAX_BLOCK) block.lines = larger(block.lines)
      else block = this.#split(block)
    }
    block.lines.copyWithin(this.#index + 1, this.#index, block.size)
    block.lines[this.#index] = line
    block.size += 1
    block.states |= 1 << this.#table.stateNumber(line)
    block.types |= typeBit(this.#table.type(line))
  }

  /** Splits a full block. @returns the block that now contains the position */
  #split(block: Block): Block {
    const keep = this.#index === block.size ? block.size : block.size >> 1
    const isEmpty = keep === block.size
    const next: Block = {
      lines: new Uint32Array(isEmpty ? MIN_BLOCK : MAX_BLOCK),
      size: 0,
      states: isEmpty ? 0 : block.states,
      types: isEmpty ? 0 : block.types,
    }
    next.lines.set(block.lines.subarray(keep, block.size))
    next.size = block.size - keep
    block.size = keep
    this.#blocks.splice(this.#block + 1, 0, next)
    if (this.#index < keep || (this.#index === keep && keep < MAX_BLOCK)) return block
    this.#index -= keep
    this.#block += 1
    return next
  }
}

function typeBit(type: number): number {
  return 1 << (type % TYPE_BITS)
}

function larger(lines: Uint32Array): Uint32Array {
  const grown = new Uint32Array(Math.min(MAX_BLOCK, lines.length * 2))
  grown.set(lines)
  return grown
}

export type EndpointLog = {
  readonly number: number
  readonly namespace: string
  readonly uid: string
  readonly tag: string
  readonly lines: SortedLines
  readonly counts: number[]
  /** Of the bodies of lines that have not ended. */
  openBytes: number
  /** Ended lines up to this id were evicted. */
  floor?: PackedId
}

const TAG_CHARACTERS = 8

/** In place of the UID of an endpoint: the events that were accepted for nobody. */
export const NOBODY = ''

/** The endpoints that have lines, by UID (as in the log) and by tag (as in names of objects). */
export class EndpointLogs {
  readonly #table: LineTable
  readonly #byUid = new Map<string, EndpointLog>()
  readonly #byTag = new Map<string, EndpointLog>()
  readonly #byOrganization = new Map<string, Set<EndpointLog>>()
  readonly #byNumber: (EndpointLog | undefined)[] = []
  readonly #free: number[] = []

  constructor(table: LineTable) {
    this.#table = table
  }

  get size(): number {
    return this.#byUid.size
  }

  get bytes(): number {
    let bytes = 0
    for (const { lines } of this.#byUid.values()) bytes += lines.bytes
    return bytes
  }

  values(): IterableIterator<EndpointLog> {
    return this.#byUid.values()
  }

  /** A UID is valid in its own namespace only. */
  find(namespace: string, uid: string): EndpointLog | undefined {
    return this.#byUid.get(`${namespace}/${uid}`)
  }

  /** All of an organization. */
  in(namespace: string): Iterable<EndpointLog> {
    return this.#byOrganization.get(namespace) ?? []
  }

  /** The endpoint of an object. @param key `<namespace>/<26 characters of the id>-<tag>` */
  ofObject(key: string): EndpointLog | undefined {
    const namespace = key.slice(0, key.indexOf('/'))
    return this.#byTag.get(`${namespace}/${key.slice(-TAG_CHARACTERS)}`)
  }

  of(line: number): EndpointLog | undefined {
    return this.#byNumber[this.#table.log(line)]
  }

  findOrAdd(namespace: string, uid: string): EndpointLog {
    const held = this.find(namespace, uid)
    if (held) return held
    const log: EndpointLog = {
      number: this.#free.pop() ?? this.#byNumber.length,
      namespace: copyString(namespace),
      uid: copyString(uid),
      tag: endpointTag(uid),
      lines: new SortedLines(this.#table),
      counts: STATES.map(() => 0),
      openBytes: 0,
    }
    this.#byNumber[log.number] = log
    this.#byUid.set(`${log.namespace}/${log.uid}`, log)
    this.#byTag.set(`${log.namespace}/${log.tag}`, log)
    const own = this.#byOrganization.get(log.namespace) ?? new Set()
    this.#byOrganization.set(log.namespace, own.add(log))
    return log
  }

  dropIfEmpty(log: EndpointLog): void {
    if (log.lines.size > 0 || this.#byNumber[log.number] !== log) return
    this.#byNumber[log.number] = undefined
    this.#free.push(log.number)
    this.#byUid.delete(`${log.namespace}/${log.uid}`)
    this.#byTag.delete(`${log.namespace}/${log.tag}`)
    const own = this.#byOrganization.get(log.namespace)
    own?.delete(log)
    if (own?.size === 0) this.#byOrganization.delete(log.namespace)
  }
}

/** Whether an ended delivery of this id counts as evicted. */
export function isBelowFloor(log: EndpointLog, id: PackedId): boolean {
  if (!log.floor) return false
  for (let word = 0; word < PACKED_WORDS; word += 1) {
    const difference = (id[word] ?? NONE) - (log.floor[word] ?? NONE)
    if (difference !== 0) return difference > 0
  }
  return true
}

export type IndexedSegment = {
  readonly number: number
  readonly name: string
  readonly version: number
  /** Lines by index: NONE if there is none (any more), UNKNOWN before the entry was seen. */
  lines: number[] | Uint32Array
  /** Lines of its events without deliveries. */
  readonly undelivered: Set<number>
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
      undelivered: new Set(),
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
    const log = this.logs.findOrAdd(wanted.namespace, wanted.uid)
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
    if (segment && !segment.undelivered.delete(line)) segment.lines[this.table.indexInSegment(line)] = NONE
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

  setUndelivered(line: number, segment: IndexedSegment): void {
    this.table.setOffset(line, segment.number, 0)
    segment.undelivered.add(line)
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
