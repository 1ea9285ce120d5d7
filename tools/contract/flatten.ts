/** A value as lines of text, one for each thing that it says, so that two of them can be compared line by line. */

type Tree = Readonly<Record<string, unknown>>

/**
 * Lines of the form `/pointer/to/it = value`, with the value as JSON. A list of scalars is one value. The items of a list of
 * objects are found by their name where each has one of its own, so that a new item does not move those behind it; a line
 * with `*` has the names in their order.
 */
export function flatten(value: unknown, at = ''): string[] {
  if (Array.isArray(value) && value.some(isTree)) return flattenList(value, at)
  if (!isTree(value) || Object.keys(value).length === 0) return [`${at || '/'} = ${JSON.stringify(value)}`]
  return Object.entries(value).flatMap(([key, item]) => flatten(item, `${at}/${step(key)}`))
}

function flattenList(items: readonly unknown[], at: string): string[] {
  const names = namesOf(items)
  if (!names) return items.flatMap((item, index) => flatten(item, `${at}/${index}`))
  const lines = items.flatMap((item, index) => flatten(item, `${at}/${step(names[index] ?? '')}`))
  return [`${at}/* = ${JSON.stringify(names)}`, ...lines]
}

/** Undefined where an item has none, or two have the same one. */
function namesOf(items: readonly unknown[]): string[] | undefined {
  const names = items.map((item) => (isTree(item) ? item.name : undefined))
  const isNamed = names.every((name): name is string => typeof name === 'string')
  return isNamed && new Set(names).size === names.length ? names : undefined
}

/** Paths and names of labels have slashes themselves. */
function step(key: string): string {
  return /[/\s"]/.test(key) || key === '' ? JSON.stringify(key) : key
}

function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
