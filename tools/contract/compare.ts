/** Compares the committed contract with the one that the source makes. */

/** Lines by the name of their file; their order does not matter. */
export type Contract = ReadonlyMap<string, readonly string[]>

export type Difference = { part: string; removed: readonly string[]; added: readonly string[] }

/** More lines do not help: the rest is in the difference of the files. */
const MOST_LINES = 40

/** Returns the differences in the order of the parts, with parts of many files last; empty if there are none. */
export function compare(before: Contract, now: Contract): Difference[] {
  const parts = [...new Set([...before.keys(), ...now.keys()])].sort(byPart)
  return parts
    .map((part) => ({ part, ...compareLines(before.get(part) ?? [], now.get(part) ?? []) }))
    .filter(({ removed, added }) => removed.length + added.length > 0)
}

export function compareLines(
  before: readonly string[],
  now: readonly string[],
): Pick<Difference, 'removed' | 'added'> {
  return { removed: without(before, now), added: without(now, before) }
}

/** A line that occurs twice counts as two lines. */
function without(lines: readonly string[], others: readonly string[]): string[] {
  const counts = new Map<string, number>()
  for (const line of others) counts.set(line, (counts.get(line) ?? 0) + 1)
  return lines.filter((line) => {
    const left = counts.get(line) ?? 0
    if (left > 0) counts.set(line, left - 1)
    return left === 0
  })
}

function byPart(a: string, b: string): number {
  const depth = Number(a.includes('/')) - Number(b.includes('/'))
  if (depth !== 0) return depth
  return a < b ? -1 : 1
}

/**
 * Describes each part that differs for people, with `-` or `+` before its lines. The lines are shared out evenly between the
 * parts, because one change can affect many of them.
 */
export function describeDifferences(differences: readonly Difference[], most = MOST_LINES): string[] {
  let left = most
  return differences.flatMap(({ part, removed, added }, index) => {
    const share = Math.ceil(left / (differences.length - index))
    const changes = [...removed.map((line) => `- ${line}`), ...added.map((line) => `+ ${line}`)]
    const listed = changes.toSorted(byLine).slice(0, share)
    left -= listed.length
    const more = changes.length - listed.length
    const title = `contract/${part}: lines removed: ${removed.length}, added: ${added.length}`
    return [title, ...listed.map((line) => `  ${line}`), ...(more > 0 ? [`  and ${more} more`] : [])]
  })
}

/** Puts the two lines of a changed value next to each other, the old one first. */
function byLine(a: string, b: string): number {
  const [one, other] = [pointerOf(a), pointerOf(b)]
  if (one !== other) return one < other ? -1 : 1
  return Number(a.startsWith('+')) - Number(b.startsWith('+'))
}

function pointerOf(change: string): string {
  return change.slice(2).split(' = ', 1)[0] ?? ''
}
