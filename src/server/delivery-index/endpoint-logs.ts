import { endpointTag } from '../../apis/ids.ts'
import { copyString } from '../../lib/text.ts'
import { type LineTable, NONE, PACKED_WORDS, type PackedId, STATES } from './line-table.ts'

/**
 * The lines of one endpoint in the order of their ids, in small blocks: a new line, nearly always the newest, is put
 * at the end, and a line anywhere is found, put in or taken out without moving more than a block.
 */

/**
 * Oldest first, so that what is added comes last. `states`: a bit for each state that a line of it may have. `types`: the
 * same for types of events, of which many share a bit.
 */
type Block = { lines: Uint32Array; size: number; states: number; types: number }

/** Numbers of the one state and the one type that are wanted; any where absent. */
export type WantedLines = { state?: number | undefined; type?: number | undefined }

const TYPE_BITS = 32
const ANY = -1

const SMALLEST = 4
const LARGEST = 512

/** @returns false to stop */
export type Visit = (line: number) => boolean

export class SortedLines {
  readonly #table: LineTable
  #blocks: Block[] = []
  #size = 0
  /** The place that was looked up last. */
  #block = 0
  #at = 0
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

  /** NONE when there is none of this id. */
  find(id: PackedId): number {
    this.#locate(id)
    const line = this.#blocks[this.#block]?.lines[this.#at]
    return line !== undefined && this.#isHere(line) && this.#table.compare(line, id) === 0 ? line : NONE
  }

  /** There must be none of its id. */
  add(line: number): void {
    this.#table.copyId(line, this.#id)
    this.#locate(this.#id)
    // Behind the last block: it goes to the end of that.
    const last = this.#blocks.length - 1
    if (this.#block > last && last >= 0) {
      this.#block = last
      this.#at = this.#blocks[last]?.size ?? 0
    }
    this.#insert(line)
    this.#size += 1
  }

  remove(line: number): void {
    this.#table.copyId(line, this.#id)
    this.#locate(this.#id)
    const block = this.#blocks[this.#block]
    if (!block || block.lines[this.#at] !== line) return
    block.lines.copyWithin(this.#at, this.#at + 1, block.size)
    block.size -= 1
    this.#size -= 1
    if (block.size === 0) this.#blocks.splice(this.#block, 1)
  }

  /** The state of a line has changed. */
  stateChanged(line: number): void {
    this.#table.copyId(line, this.#id)
    this.#locate(this.#id)
    const block = this.#blocks[this.#block]
    if (block) block.states |= 1 << this.#table.stateNumber(line)
  }

  /**
   * From the newest on, or from the first that is older than `after`, to older ones. Nothing may change meanwhile.
   * @param wanted blocks without lines like that are passed over; others are visited whole
   */
  walk(after: PackedId | undefined, visit: Visit, wanted: WantedLines = {}): void {
    this.#block = this.#blocks.length
    this.#at = 0
    if (after) this.#locate(after)
    const states = wanted.state === undefined ? ANY : 1 << wanted.state
    const types = wanted.type === undefined ? ANY : bitOfType(wanted.type)
    for (let index = this.#block; index >= 0; index -= 1) {
      const block = this.#blocks[index]
      if (!block || (block.states & states) === 0 || (block.types & types) === 0) continue
      if (!this.#walkBlock(block, index === this.#block ? this.#at : block.size, visit)) return
    }
  }

  #walkBlock(block: Block, from: number, visit: Visit): boolean {
    let [states, types] = [0, 0]
    for (let at = from - 1; at >= 0; at -= 1) {
      const line = block.lines[at] ?? NONE
      states |= 1 << this.#table.stateNumber(line)
      types |= bitOfType(this.#table.type(line))
      if (!visit(line)) return false
    }
    // The next one need not look for what is not there any more.
    if (from === block.size) [block.states, block.types] = [states, types]
    return true
  }

  /** From the oldest on. Nothing may change meanwhile. */
  walkOldest(visit: Visit): void {
    for (const block of this.#blocks) {
      for (let at = 0; at < block.size; at += 1) if (!visit(block.lines[at] ?? NONE)) return
    }
  }

  /** A place behind the last line of its block holds what was there before. */
  #isHere(line: number): boolean {
    return line !== NONE && this.#at < (this.#blocks[this.#block]?.size ?? 0)
  }

  /** The place of the first line, from the oldest on, that is not older than `id`. */
  #locate(id: PackedId): void {
    let [low, high] = [0, this.#blocks.length]
    const last = this.#blocks[high - 1]
    // Nearly always it is the newest.
    if (last && this.#table.compare(last.lines[last.size - 1] ?? NONE, id) > 0) low = high
    while (low < high) {
      const middle = (low + high) >> 1
      const block = this.#blocks[middle]
      const newest = block?.lines[block.size - 1] ?? NONE
      if (this.#table.compare(newest, id) > 0) low = middle + 1
      else high = middle
    }
    this.#block = low
    this.#at = this.#placeIn(this.#blocks[low], id)
  }

  #placeIn(block: Block | undefined, id: PackedId): number {
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
      block = { lines: new Uint32Array(SMALLEST), size: 0, states: 0, types: 0 }
      this.#blocks.push(block)
    }
    if (block.size === block.lines.length) {
      if (block.size < LARGEST) block.lines = larger(block.lines)
      else block = this.#split(block)
    }
    block.lines.copyWithin(this.#at + 1, this.#at, block.size)
    block.lines[this.#at] = line
    block.size += 1
    block.states |= 1 << this.#table.stateNumber(line)
    block.types |= bitOfType(this.#table.type(line))
  }

  /** @returns the block with room for the place, which is then a place in it */
  #split(block: Block): Block {
    const keep = this.#at === block.size ? block.size : block.size >> 1
    const isEmpty = keep === block.size
    const next: Block = {
      lines: new Uint32Array(isEmpty ? SMALLEST : LARGEST),
      size: 0,
      states: isEmpty ? 0 : block.states,
      types: isEmpty ? 0 : block.types,
    }
    next.lines.set(block.lines.subarray(keep, block.size))
    next.size = block.size - keep
    block.size = keep
    this.#blocks.splice(this.#block + 1, 0, next)
    if (this.#at < keep || (this.#at === keep && keep < LARGEST)) return block
    this.#at -= keep
    this.#block += 1
    return next
  }
}

function bitOfType(type: number): number {
  return 1 << (type % TYPE_BITS)
}

function larger(lines: Uint32Array): Uint32Array {
  const grown = new Uint32Array(Math.min(LARGEST, lines.length * 2))
  grown.set(lines)
  return grown
}

/** The endpoints that have lines, found by UID (as the log names them) and by tag (as names of objects do). */

export type EndpointLog = {
  readonly number: number
  readonly namespace: string
  readonly uid: string
  readonly tag: string
  readonly lines: SortedLines
  /** Lines by the number of their state. */
  readonly counts: number[]
  /** What has ended and is not newer has been left out for want of room. */
  floor?: PackedId
}

const TAG_CHARACTERS = 8

export class EndpointLogs {
  readonly #table: LineTable
  readonly #byUid = new Map<string, EndpointLog>()
  readonly #byTag = new Map<string, EndpointLog>()
  readonly #byNumber: (EndpointLog | undefined)[] = []
  readonly #free: number[] = []

  constructor(table: LineTable) {
    this.#table = table
  }

  get size(): number {
    return this.#byUid.size
  }

  /** Memory of the orders of lines. */
  get bytes(): number {
    let bytes = 0
    for (const { lines } of this.#byUid.values()) bytes += lines.bytes
    return bytes
  }

  values(): IterableIterator<EndpointLog> {
    return this.#byUid.values()
  }

  /** An endpoint's UID counts in its own namespace only. */
  find(namespace: string, uid: string): EndpointLog | undefined {
    return this.#byUid.get(`${namespace}/${uid}`)
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
    }
    this.#byNumber[log.number] = log
    this.#byUid.set(`${log.namespace}/${log.uid}`, log)
    this.#byTag.set(`${log.namespace}/${log.tag}`, log)
    return log
  }

  /** An endpoint without lines costs nothing. */
  dropIfEmpty(log: EndpointLog): void {
    if (log.lines.size > 0 || this.#byNumber[log.number] !== log) return
    this.#byNumber[log.number] = undefined
    this.#free.push(log.number)
    this.#byUid.delete(`${log.namespace}/${log.uid}`)
    this.#byTag.delete(`${log.namespace}/${log.tag}`)
  }
}

/** Whether it is older than everything that may be taken in once it has ended. */
export function isBelowFloor(log: EndpointLog, id: PackedId): boolean {
  if (!log.floor) return false
  for (let word = 0; word < PACKED_WORDS; word += 1) {
    const difference = (id[word] ?? NONE) - (log.floor[word] ?? NONE)
    if (difference !== 0) return difference > 0
  }
  return true
}
