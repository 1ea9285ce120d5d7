/** @param found violations by kind; only a few of many are listed */
export function worded(found: Record<string, readonly string[]>): string[] {
  return Object.entries(found).flatMap(([what, which]) =>
    which.length === 0 ? [] : [`${which.length} ${what}: ${which.slice(0, 5).join(', ')}`],
  )
}
