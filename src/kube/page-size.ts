/**
 * How many objects to ask for in one page, from what the last page of the type weighed: parsing a page must
 * not hold the event loop for more than some 20 ms, and a page of large objects must stay below the limit of
 * a response.
 */
export class AdaptivePageSize {
  readonly #averageBytes = new Map<string, number>()

  /** @param wanted objects per page as the caller would like it */
  limit(plural: string, wanted: number): number {
    const average = this.#averageBytes.get(plural) ?? UNKNOWN_BYTES
    return Math.max(1, Math.min(wanted, Math.floor(PAGE_BYTES / average)))
  }

  learn(plural: string, page: { objects: number; bytes: number }): void {
    if (page.objects === 0) return
    this.#averageBytes.set(plural, Math.max(1, page.bytes / page.objects))
  }
}

const PAGE_BYTES = 4 * 1024 * 1024
/** Before the first page: 64 objects. */
const UNKNOWN_BYTES = 64 * 1024
