/** The endpoints that have lines, found by UID (as the log names them) and by tag (as names of objects do). */
import { endpointTag } from '../../apis/ids.ts'
import { copyString } from '../../lib/own-text.ts'
import { SortedLines } from './endpoint-logs.ts'
import { type LineTable, NONE, STATES } from './line-table.ts'
import { PACKED_WORDS, type PackedId } from './packed-id.ts'

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
