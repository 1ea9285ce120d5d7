/**
 * Place in the delivery log: the resourceVersion of the segment and the index in it. Compared as numbers, it is
 * the order in which the underlying changes were committed (interface §6.5).
 */
export type Position = { version: number; index: number }

export function comparePositions(a: Position, b: Position): number {
  return a.version - b.version || a.index - b.index
}

export function formatPosition(position: Position): string {
  return `${position.version}/${position.index}`
}

/** Undefined when `text` is no position. */
export function parsePosition(text: string): Position | undefined {
  const match = /^(\d{1,15})\/(\d{1,6})$/.exec(text)
  return match ? { version: Number(match[1]), index: Number(match[2]) } : undefined
}
