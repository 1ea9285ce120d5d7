/**
 * `compute` with up to `max` of its results kept. When full it starts over, which is rare and costs microseconds; the
 * order of use that an LRU cache keeps would cost on every call. A result of undefined is not kept.
 * @param ownKey copyString where a key is cut out of a large text, which it would keep in memory
 */
export function memoize<V>(
  max: number,
  compute: (key: string) => V,
  ownKey: (key: string) => string = (key) => key,
): (key: string) => V {
  const known = new Map<string, V>()
  return (key) => {
    const held = known.get(key)
    if (held !== undefined) return held
    const own = ownKey(key)
    const value = compute(own)
    if (value === undefined) return value
    if (known.size >= max) known.clear()
    known.set(own, value)
    return value
  }
}
