/** Flattens a value to one text line per leaf, so that two values can be compared line by line. */

type Tree = Readonly<Record<string, unknown>>

/**
 * Returns lines of the form `/pointer/to/it = value`, with the value as JSON. A list of scalars is one value. Items of a list of
 * objects are identified by their name if every item has a unique one, so that a new item does not move the following ones; a
 * line with `*` has the names in order.
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

/** Undefined if an item has no name, or two share one. */
function namesOf(items: readonly unknown[]): string[] | undefined {
  const names = items.map((item) => (isTree(item) ? item.name : undefined))
  const isNamed = names.every((name): name is string => typeof name === 'string')
  return isNamed && new Set(names).size === names.length ? names : undefined
}

/** Paths and label names contain slashes themselves. */
function step(key: string): string {
  return /[/\s"]/.test(key) || key === '' ? JSON.stringify(key) : key
}

function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
