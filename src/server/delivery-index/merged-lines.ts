/**
 * The lines of several endpoints as one sequence: the newest event first, and the deliveries of one event in the order of the tags of
 * their endpoints. So a position in the sequence needs no state, and stays valid while endpoints come and go.
 */
import { MESSAGE_PREFIX, messageId, nameOfMessage } from '../../apis/ids.ts'
import type { EndpointLog, WantedLines } from './endpoint-logs.ts'
import { type PackedId, packedName, precedingId } from './line-table.ts'
import type { Lines } from './lines.ts'

/** Between two lines of a sequence. Without a tag, behind all lines of the event. */
export type Position = { id: PackedId; tag?: string }

/** `msg_...-<tag>`: behind this line. */
export function positionOf({ table, logs }: Lines, line: number): string {
  return `${messageId(table.name(line))}-${logs.of(line)?.tag ?? ''}`
}

const ID_LENGTH = MESSAGE_PREFIX.length + 26

/** @param text of `positionOf`, or the id of an event alone; undefined if it is neither */
export function readPosition(text: string): Position | undefined {
  const id = packedName(nameOfMessage(text.slice(0, ID_LENGTH)) ?? '')
  const tag = text.slice(ID_LENGTH + 1)
  return id && (tag === '' ? { id } : { id, tag })
}

/** The next line of an endpoint, and those after it. @property rank place of the endpoint among the others */
type Source = { line: number; rank: number; rest: Iterator<number> }

/** Lines must not change meanwhile. Yields lines of other states and types as well (`SortedLines.newest`). */
export function* mergedLines(
  { table }: Lines,
  logs: readonly EndpointLog[],
  after: Position | undefined,
  wanted: WantedLines = {},
): IterableIterator<number> {
  const ranked = logs.toSorted((a, b) => (a.tag < b.tag ? -1 : 1))
  const sources: Source[] = []
  for (const [rank, log] of ranked.entries()) {
    const rest = log.lines.newest(startIn(log, after), wanted)
    const first = rest.next()
    if (!first.done) sources.push({ line: first.value, rank, rest })
  }
  const isBefore = (a: Source, b: Source) => (table.compareLines(a.line, b.line) || a.rank - b.rank) < 0
  for (let index = (sources.length >> 1) - 1; index >= 0; index -= 1) sink(sources, index, isBefore)
  for (let top = sources[0]; top; top = sources[0]) {
    yield top.line
    const next = top.rest.next()
    if (!next.done) top.line = next.value
    else {
      const last = sources.pop()
      if (last && last !== top) sources[0] = last
    }
    sink(sources, 0, isBefore)
  }
}

function startIn(log: EndpointLog, after: Position | undefined): PackedId | undefined {
  if (after?.tag === undefined) return after?.id
  return log.tag > after.tag ? precedingId(after.id) : after.id
}

/** Restores the order of a binary heap whose item at `index` may be too large. */
function sink(heap: Source[], index: number, isBefore: (a: Source, b: Source) => boolean): void {
  const item = heap[index]
  if (!item) return
  for (let place = index; ; ) {
    const [left, right] = [heap[2 * place + 1], heap[2 * place + 2]]
    const isRight = left !== undefined && right !== undefined && isBefore(right, left)
    const child = isRight ? right : left
    if (!child || !isBefore(child, item)) {
      heap[place] = item
      return
    }
    heap[place] = child
    place = 2 * place + (isRight ? 2 : 1)
  }
}
