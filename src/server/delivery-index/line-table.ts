/**
 * The rows of the delivery index: one line per delivery as numbers, 68 bytes each, in buffers that the garbage collector does not walk.
 * Released rows are reused, so the number of a line is meaningless once the line is removed.
 */
import { type DeliveryState, deliveryState } from '../../apis/webhook-delivery.ts'
import { BASE32_ALPHABET } from '../../lib/text.ts'
import { isFinal } from '../../webhooks/delivery/plan.ts'
import type { LogEnd } from '../../webhooks/log/fold.ts'

/** The 26 characters of an id as four 32-bit words, most significant first, so that they compare like the text. */
export type PackedId = Uint32Array

export const PACKED_WORDS = 4

const CHARACTERS = 26
const WORD = 2 ** 32
/** The characters encode 130 bits, of which the first two are zero. */
const UNUSED_BITS = 2

const DIGITS = new Int8Array(128).fill(-1)
for (let digit = 0; digit < BASE32_ALPHABET.length; digit += 1)
  DIGITS[BASE32_ALPHABET.charCodeAt(digit)] = digit

/** Undefined if `name` is no id of Davit. */
export function packedName(name: string): PackedId | undefined {
  if (name.length !== CHARACTERS) return undefined
  const id = new Uint32Array(PACKED_WORDS)
  let held = 0
  let bits = -UNUSED_BITS
  let word = 0
  for (let index = 0; index < CHARACTERS; index += 1) {
    const digit = DIGITS[name.charCodeAt(index)] ?? -1
    if (digit < 0 || (index === 0 && digit > 7)) return undefined
    held = held * 32 + digit
    bits += 5
    if (bits < 32) continue
    bits -= 32
    const rest = 2 ** bits
    id[word] = Math.floor(held / rest)
    held %= rest
    word += 1
  }
  return id
}

/** @param from index of the first of the four words */
export function unpackName(words: Uint32Array, from = 0): string {
  let name = ''
  let held = 0
  let bits = UNUSED_BITS
  for (let word = 0; word < PACKED_WORDS; word += 1) {
    held = held * WORD + (words[from + word] ?? 0)
    bits += 32
    while (bits >= 5) {
      bits -= 5
      const rest = 2 ** bits
      name += BASE32_ALPHABET.charAt(Math.floor(held / rest))
      held %= rest
    }
  }
  return name
}

/** The id just before, in the order of ids. */
export function precedingId(id: PackedId): PackedId {
  const before = id.slice()
  for (let word = PACKED_WORDS - 1; word >= 0; word -= 1) {
    const isBorrowed = before[word] === 0
    before[word] = (before[word] ?? 0) - 1
    if (!isBorrowed) break
  }
  return before
}

export const NONE = 0xffff_ffff

/** `at`: when the delivery ended or, before that, its next attempt; milliseconds since 1970, NaN if unknown. */
export type LineStatus = { state: DeliveryState; attempts: number; at: number }

/** What the log says of a line. */
type LogOutcome = { end: LogEnd; attempts: number; endVersion: number }

/** `log` and `type` are numbers of an endpoint and an event type; `bytes` are those of the body. */
type NewLine = { log: number; type: number; bytes: number; sharesBody: boolean }

type Bits = { readonly shift: number; readonly mask: number }
const STATE: Bits = { shift: 0, mask: 7 }
const ATTEMPTS: Bits = { shift: 3, mask: 15 }
const LOG_ATTEMPTS: Bits = { shift: 7, mask: 15 }
const LOG_END: Bits = { shift: 11, mask: 3 }
const LISTED: Bits = { shift: 13, mask: 1 }
const MOVED: Bits = { shift: 14, mask: 1 }
const OBJECT_ENDED: Bits = { shift: 15, mask: 1 }
const SHARES_BODY: Bits = { shift: 16, mask: 1 }
const RECEIVERS: Bits = { shift: 17, mask: 0x7fff }

/** The number of a state is its index here. */
export const STATES: readonly DeliveryState[] = deliveryState.options
const LOG_ENDS: readonly LogEnd[] = ['none', 'sent', 'canceled', 'exhausted']

/** @param counts lines by the number of their state */
export function countEnded(counts: readonly number[]): number {
  return STATES.reduce((sum, state, number) => sum + (isFinal(state) ? (counts[number] ?? 0) : 0), 0)
}

const GROWTH = 16_384

export class LineTable {
  readonly capacity: number
  readonly #buffers: { buffer: ArrayBuffer; width: number }[] = []
  readonly #ids: Uint32Array
  readonly #facts: Uint32Array
  readonly #logs: Uint32Array
  readonly #types: Uint32Array
  readonly #segments: Uint32Array
  readonly #indexes: Uint32Array
  readonly #outcomes: Uint32Array
  readonly #bytes: Uint32Array
  readonly #times: Float64Array
  readonly #versions: Float64Array
  readonly #endVersions: Float64Array
  #rows = 0
  #used = 0
  #size = 0
  /** The first free row. Each free row has the next one in its segment column. */
  #free = NONE

  /** @param capacity maximum of rows; memory is allocated as they are added */
  constructor(capacity: number) {
    this.capacity = capacity
    this.#ids = new Uint32Array(this.#column(4 * PACKED_WORDS))
    this.#facts = new Uint32Array(this.#column(4))
    this.#logs = new Uint32Array(this.#column(4))
    this.#types = new Uint32Array(this.#column(4))
    this.#segments = new Uint32Array(this.#column(4))
    this.#indexes = new Uint32Array(this.#column(4))
    this.#outcomes = new Uint32Array(this.#column(4))
    this.#bytes = new Uint32Array(this.#column(4))
    this.#times = new Float64Array(this.#column(8))
    this.#versions = new Float64Array(this.#column(8))
    this.#endVersions = new Float64Array(this.#column(8))
  }

  get size(): number {
    return this.#size
  }

  /** All lines have lower numbers. */
  get end(): number {
    return this.#used
  }

  get bytes(): number {
    return this.#buffers.reduce((sum, { buffer }) => sum + buffer.byteLength, 0)
  }

  get full(): boolean {
    return this.#size >= this.capacity
  }

  /** Adds a pending line without object, segment or outcomes. The table must not be full. */
  allocate(id: PackedId, { log, type, bytes, sharesBody }: NewLine): number {
    const line = this.#free === NONE ? this.#used : this.#free
    if (line === this.#used) {
      if (this.#used === this.#rows) this.#grow()
      this.#used += 1
    } else this.#free = this.#segments[line] ?? NONE
    this.#size += 1
    for (let word = 0; word < PACKED_WORDS; word += 1) this.#ids[line * PACKED_WORDS + word] = id[word] ?? 0
    this.#facts[line] = 0
    this.#logs[line] = log
    this.#types[line] = type
    this.#segments[line] = NONE
    this.#outcomes[line] = NONE
    this.#bytes[line] = bytes
    this.#set(line, SHARES_BODY, sharesBody ? 1 : 0)
    this.#times[line] = Number.NaN
    this.#versions[line] = 0
    this.#endVersions[line] = 0
    return line
  }

  release(line: number): void {
    this.#versions[line] = 0
    this.#outcomes[line] = NONE
    this.#segments[line] = this.#free
    this.#free = line
    this.#size -= 1
  }

  /** Negative if the line's id sorts first, so that the line is newer. */
  compare(line: number, id: PackedId): number {
    const from = line * PACKED_WORDS
    for (let word = 0; word < PACKED_WORDS; word += 1) {
      const difference = (this.#ids[from + word] ?? 0) - (id[word] ?? 0)
      if (difference !== 0) return difference
    }
    return 0
  }

  /** Negative if `line` is newer than `other`, zero if both are of one event. */
  compareLines(line: number, other: number): number {
    for (let word = 0; word < PACKED_WORDS; word += 1) {
      const difference =
        (this.#ids[line * PACKED_WORDS + word] ?? 0) - (this.#ids[other * PACKED_WORDS + word] ?? 0)
      if (difference !== 0) return difference
    }
    return 0
  }

  copyId(line: number, into: PackedId): void {
    const from = line * PACKED_WORDS
    for (let word = 0; word < PACKED_WORDS; word += 1) into[word] = this.#ids[from + word] ?? 0
  }

  name(line: number): string {
    return unpackName(this.#ids, line * PACKED_WORDS)
  }

  log(line: number): number {
    return this.#logs[line] ?? NONE
  }

  type(line: number): number {
    return this.#types[line] ?? 0
  }

  /** Bytes of its body. */
  bodyBytes(line: number): number {
    return this.#bytes[line] ?? 0
  }

  /** Whether other deliveries may have the same body. */
  sharesBody(line: number): boolean {
    return this.#get(line, SHARES_BODY) === 1
  }

  stateNumber(line: number): number {
    return this.#get(line, STATE)
  }

  status(line: number): LineStatus {
    return {
      state: STATES[this.#get(line, STATE)] ?? 'pending',
      attempts: this.#get(line, ATTEMPTS),
      at: this.#times[line] ?? Number.NaN,
    }
  }

  setStatus(line: number, { state, attempts, at }: LineStatus): void {
    this.#set(line, STATE, STATES.indexOf(state))
    this.#set(line, ATTEMPTS, attempts)
    this.#times[line] = at
  }

  logEnd(line: number): LogEnd {
    return LOG_ENDS[this.#get(line, LOG_END)] ?? 'none'
  }

  logAttempts(line: number): number {
    return this.#get(line, LOG_ATTEMPTS)
  }

  /** Version of the segment with its end in the log. */
  endVersion(line: number): number {
    return this.#endVersions[line] ?? 0
  }

  setLogOutcome(line: number, { end, attempts, endVersion }: LogOutcome): void {
    this.#set(line, LOG_END, LOG_ENDS.indexOf(end))
    this.#set(line, LOG_ATTEMPTS, attempts)
    this.#endVersions[line] = endVersion
  }

  setMoved(line: number, moved: boolean): void {
    this.#set(line, MOVED, moved ? 1 : 0)
  }

  /** Number of the segment that contains the event, or NONE. */
  segment(line: number): number {
    return this.#segments[line] ?? NONE
  }

  indexInSegment(line: number): number {
    return this.#indexes[line] ?? 0
  }

  /** Deliveries of its event, at most 32,767. Only while it has a segment. */
  receivers(line: number): number {
    return this.#get(line, RECEIVERS)
  }

  setReceivers(line: number, receivers: number): void {
    this.#set(line, RECEIVERS, Math.min(receivers, RECEIVERS.mask))
  }

  setOffset(line: number, segment: number, index: number): void {
    this.#segments[line] = segment
    this.#indexes[line] = index
  }

  /** Number of the newest OutcomeSegment with an attempt of this line, or NONE. */
  outcomes(line: number): number {
    return this.#outcomes[line] ?? NONE
  }

  setOutcomes(line: number, outcomes: number): void {
    this.#outcomes[line] = outcomes
  }

  objectVersion(line: number): number {
    return this.#versions[line] ?? 0
  }

  hasObject(line: number): boolean {
    return this.objectVersion(line) > 0
  }

  objectEnded(line: number): boolean {
    return this.#get(line, OBJECT_ENDED) === 1
  }

  setObject(line: number, version: number, ended: boolean): void {
    this.#versions[line] = version
    this.#set(line, OBJECT_ENDED, ended ? 1 : 0)
  }

  /** Whether the log says that the delivery moved to an object. */
  isMoved(line: number): boolean {
    return this.#get(line, MOVED) === 1
  }

  isListed(line: number): boolean {
    return this.#get(line, LISTED) === 1
  }

  markListed(line: number): void {
    this.#set(line, LISTED, 1)
  }

  unmarkAll(): void {
    for (let line = 0; line < this.#used; line += 1) this.#set(line, LISTED, 0)
  }

  #get(line: number, { shift, mask }: Bits): number {
    return ((this.#facts[line] ?? 0) >>> shift) & mask
  }

  #set(line: number, { shift, mask }: Bits, value: number): void {
    const rest = (this.#facts[line] ?? 0) & ~(mask << shift)
    this.#facts[line] = rest | ((value & mask) << shift)
  }

  #column(width: number): ArrayBuffer {
    const buffer = new ArrayBuffer(0, { maxByteLength: this.capacity * width })
    this.#buffers.push({ buffer, width })
    return buffer
  }

  #grow(): void {
    this.#rows = Math.min(this.capacity, this.#rows + GROWTH)
    for (const { buffer, width } of this.#buffers) buffer.resize(this.#rows * width)
  }
}
