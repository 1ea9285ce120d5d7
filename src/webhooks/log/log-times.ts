/** Times are rounded up to it. */
const STEP_MS = 60_000
/** Four days. The oldest are forgotten first. */
const MAX_ENTRIES = 6_000

type Entry = { version: number; time: number }

/**
 * By when each segment of the log was written, by the times of the segments that follow it: a segment cannot be younger than its successor.
 * So the log corrects a clock that was ahead for a while.
 */
export class LogTimes {
  /** In the order of versions and of times. Everything up to a version was written by its time. */
  readonly #entries: Entry[] = []

  get size(): number {
    return this.#entries.length
  }

  /** In any order. @param version of a segment @param time by which it was written, milliseconds since 1970 */
  add(version: number, time: number): void {
    const entries = this.#entries
    const by = Math.ceil(time / STEP_MS) * STEP_MS
    const end = indexForVersion(entries, version)
    const next = entries[end]
    if (Number.isNaN(by) || (next && next.time <= by)) return
    let start = end
    while (start > 0 && (entries[start - 1]?.time ?? 0) >= by) start -= 1
    entries.splice(start, end - start + (next?.version === version ? 1 : 0), { version, time: by })
    if (entries.length > MAX_ENTRIES) entries.shift()
  }

  /** Milliseconds since 1970, less than a minute late; infinity if no segment of this version or a later one is known. */
  writtenBy(version: number): number {
    return this.#entries[indexForVersion(this.#entries, version)]?.time ?? Number.POSITIVE_INFINITY
  }
}

/** Index of the first entry that is not before `version`; nearly always the end. @param entries in the order of versions */
export function indexForVersion(entries: readonly { version: number }[], version: number): number {
  let [low, high] = [0, entries.length]
  const last = entries.at(-1)
  if (!last || last.version < version) return high
  while (low < high) {
    const middle = (low + high) >> 1
    if ((entries[middle]?.version ?? 0) < version) low = middle + 1
    else high = middle
  }
  return low
}
