/** @param found what is wrong, in words, and where; a few of many are named */
export function worded(found: Record<string, readonly string[]>): string[] {
  return Object.entries(found).flatMap(([what, which]) =>
    which.length === 0 ? [] : [`${which.length} ${what}: ${which.slice(0, 5).join(', ')}`],
  )
}
