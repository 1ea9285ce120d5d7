import { unlessUnreadable } from '../../apis/log-format.ts'
import { readOutcomeSegment } from '../../apis/outcome-segment.ts'
import type { LogStore, StoredSegment } from './log-store.ts'

/**
 * Reading the log back to its low-water mark at the start. Names are newest first, so a list ends soon after the mark. See "The low-water
 * mark" in README.md; delivery/low-water-mark.ts decides how far it is.
 */

/** Writers have seen segments older than this, and named theirs newer. Keys so far behind the mark still detect duplicates. */
const MARGIN_MS = 60_000

/**
 * Returns a function that is given page after page of a list by name, and is true once the list is far enough behind the mark: every
 * segment on the page was created so long before the mark that a writer ahead of the mark had seen it, and used a newer name.
 */
export function reachesLowWater(lowWater: number): (page: readonly StoredSegment[]) => boolean {
  /** The last segment behind the mark. */
  let last = { version: -1, createdAt: Number.NEGATIVE_INFINITY }
  return (page) => {
    let newest = Number.NEGATIVE_INFINITY
    let allBehind = true
    for (const { metadata } of page) {
      const createdAt = Date.parse(String(metadata.creationTimestamp))
      const version = Number(metadata.resourceVersion)
      allBehind &&= version <= lowWater
      if (Number.isNaN(createdAt)) continue
      if (version <= lowWater && version > last.version) last = { version, createdAt }
      newest = Math.max(newest, createdAt)
    }
    return page.length > 0 && allBehind && newest < last.createdAt - MARGIN_MS
  }
}

/**
 * The highest low-water mark of the newest outcome segments; 0 in an empty log. A mark that is not behind its own segment is ignored:
 * segments up to it would never be read.
 */
export async function readLowWater(store: Pick<LogStore, 'page'>): Promise<number> {
  const { segments } = await store.page('outcomes', { limit: 10 })
  const marks = segments.flatMap((raw) => {
    const mark = Number(unlessUnreadable(() => readOutcomeSegment(raw))?.spec.lowWater ?? 0)
    return mark < Number(raw.metadata.resourceVersion) ? [mark] : []
  })
  return Math.max(0, ...marks)
}

/** Each list of the log ends soon after the low-water mark that was known when the list before it ended. */
export function stopAtLowWater(lowWater: () => number): (page: readonly StoredSegment[]) => boolean {
  let enough = reachesLowWater(lowWater())
  return (page) => {
    if (!enough(page)) return false
    enough = reachesLowWater(lowWater())
    return true
  }
}
