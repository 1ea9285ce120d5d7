/** How fairly turns were given. */

/** `afterMs`: since the organization asked. */
export type Store = { organization: string; afterMs: number }

/**
 * When all organizations take turns, the k-th store of each is done once every other has had k: what was waited over that, for each
 * store.
 */
export function fairnessOf(
  stores: readonly Store[],
  { organizations, perSecond }: { organizations: number; perSecond: number },
): { worst: number; median: number } {
  const counts = new Map<string, number>()
  const shares = stores.map(({ organization, afterMs }) => {
    const k = (counts.get(organization) ?? 0) + 1
    counts.set(organization, k)
    return afterMs / (((k * organizations) / perSecond) * 1000)
  })
  const sorted = shares.sort((a, b) => a - b)
  return { worst: sorted.at(-1) ?? 0, median: sorted[Math.floor(sorted.length / 2)] ?? 0 }
}
