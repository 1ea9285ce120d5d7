/**
 * The endpoints that have lines, and the lines of each in the order of their ids. lines.ts keeps what else refers to a line.
 */
import { endpointTag } from '../../apis/ids.ts'
import { shardOf } from '../../ha/assignment.ts'
import { copyString } from '../../lib/text.ts'
import { type LineTable, NONE, PACKED_WORDS, type PackedId, STATES } from './line-table.ts'

/**
 * Oldest first, so that new lines come last. `states`: a bit for each state that a line of the block may have. `types`: the same for event
 * types, several of which share a bit.
 */
type Block = { lines: Uint32Array; size: number; states: number; types: number }

export type WantedLines = { state?: number | undefined; type?: number | undefined }

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
   * Lines from the newest, or the first that is older than `after`, to the oldest. Lines must not change meanwhile.
   * @param wanted blocks that have no such line are skipped; the others yield all of their lines
   */
  *newest(after?: PackedId, wanted: WantedLines = {}): IterableIterator<number> {
    let [number, from] = [this.#blocks.length, 0]
    if (after) {
      this.#locate(after)
      number = this.#block
      from = this.#index
    }
    const states = wanted.state === undefined ? ANY : 1 << wanted.state
    const types = wanted.type === undefined ? ANY : typeBit(wanted.type)
    const first = number
    for (; number >= 0; number -= 1) {
      const block = this.#blocks[number]
      if (!block || (block.states & states) === 0 || (block.types & types) === 0) continue
      yield* this.#inBlock(block, number === first ? from : block.size)
    }
  }

  *#inBlock(block: Block, from: number): IterableIterator<number> {
    let [states, types] = [0, 0]
    for (let index = from - 1; index >= 0; index -= 1) {
      const line = block.lines[index] ?? NONE
      states |= 1 << this.#table.stateNumber(line)
      types |= typeBit(this.#table.type(line))
      yield line
    }
    // Bits are only ever set while lines change and go; a walk over the whole block has seen which are still right.
    if (from === block.size) [block.states, block.types] = [states, types]
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
  /** Of the endpoint; empty if it is not known. */
  name: string
  readonly tag: string
  readonly shard: number
  readonly lines: SortedLines
  readonly counts: number[]
  /** Of the bodies of lines that have not ended. */
  openBytes: number
  /** Ended lines up to this id were evicted. */
  floor?: PackedId
}

const TAG_CHARACTERS = 8

/** In place of the UID of an endpoint: events that no endpoint gets, or of which a delivery is gone. */
export const NO_ENDPOINT = ''

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

  /** @param name of the endpoint, if it is known */
  findOrAdd(namespace: string, uid: string, name = ''): EndpointLog {
    const held = this.find(namespace, uid)
    if (held) {
      if (held.name === '' && name !== '') held.name = copyString(name)
      return held
    }
    const log: EndpointLog = {
      number: this.#free.pop() ?? this.#byNumber.length,
      namespace: copyString(namespace),
      uid: copyString(uid),
      name: copyString(name),
      tag: endpointTag(uid),
      shard: shardOf(uid),
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
