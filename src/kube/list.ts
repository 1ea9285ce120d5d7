import type { ResourceType } from '../apis/meta.ts'
import { type Clock, sleep, yieldToEventLoop } from '../lib/time.ts'
import {
  type ApiError,
  isApiError,
  type ListQuery,
  type Page,
  type RawObject,
  type ResourceReader,
} from './client.ts'
import { type Store, versionOf } from './store.ts'

/** Lists in pages: one pass over all objects, or into a store with pages that adapt to the size of the objects. */

/** The objects of a list, page by page. @throws ApiError */
export async function* listObjects(
  resources: Pick<ResourceReader, 'list'>,
  type: ResourceType,
  query: ListQuery,
): AsyncGenerator<RawObject, void> {
  let from: string | undefined
  do {
    const page = await resources.list(type, query, from)
    yield* page.items
    from = page.continue
  } while (from !== undefined)
}

export type ListIntoStoreOptions = {
  api: ResourceReader
  type: ResourceType
  query: ListQuery
  /** Fast pages grow up to this many objects. Absent: pages stay as the query says. */
  largestPage?: number | undefined
  store: Pick<Store<unknown>, 'beginList' | 'endList' | 'abandonList'>
  clock: Clock
  take(raw: RawObject): void
  /** Called for each page; true ends the list there. */
  stopListing?: ((page: readonly RawObject[]) => boolean) | undefined
  /** True once the list is not needed any more. */
  isOver(): boolean
  /** A page after the first failed and will be retried. */
  onPageFailed?: ((error: ApiError) => void) | undefined
  /** Called with the version of the list before its first object. */
  onVersion?: ((version: number) => void) | undefined
}

/** Work before yielding to the event loop: by time, or by steps. */
const SLICE_MS = 10
const SLICE_STEPS = 200

/** A page is too small if faster, too large if slower: for the event loop and for the API server. */
const QUICK_MS = 50
const SLOW_MS = 250

/** Tries of a page before the list fails: restarting at every failed page might never finish. */
const PAGE_TRIES = 5
const AGAIN_MS = 1000
/** How often a waiting page checks whether it is still needed. */
const CHECK_MS = 100

/** Reads pages of objects whose size is not known in advance. */
class PageReader {
  readonly #listing: ListIntoStoreOptions
  #limit: number | undefined

  constructor(listing: ListIntoStoreOptions) {
    this.#listing = listing
    this.#limit = listing.query.limit
  }

  /** @throws ApiError also after the last try of a page */
  async read(from: string | undefined): Promise<Page> {
    const { isOver, onPageFailed } = this.#listing
    for (let tried = 1; ; tried += 1) {
      try {
        return await this.#readOnce(from)
      } catch (error) {
        const mayPass = isApiError(error, 'Unavailable', 'TooManyRequests')
        if (from === undefined || !mayPass || tried >= PAGE_TRIES || isOver()) throw error
        onPageFailed?.(error)
        this.#shrink()
        await this.#rest(error.retryAfterMs ?? tried * AGAIN_MS)
        if (isOver()) throw error
      }
    }
  }

  async #readOnce(from: string | undefined): Promise<Page> {
    const { api, type, query, clock } = this.#listing
    const started = clock.monotonic()
    const page = await api.list(type, { ...query, limit: this.#limit }, from)
    this.#adapt(clock.monotonic() - started)
    return page
  }

  async #rest(ms: number): Promise<void> {
    const { clock, isOver } = this.#listing
    const end = clock.monotonic() + ms
    while (!isOver() && clock.monotonic() < end)
      await sleep(clock, Math.min(end - clock.monotonic(), CHECK_MS))
  }

  #adapt(tookMs: number): void {
    const { largestPage } = this.#listing
    if (this.#limit === undefined || largestPage === undefined) return
    if (tookMs < QUICK_MS) this.#limit = Math.min(largestPage, this.#limit * 2)
    else if (tookMs > SLOW_MS) this.#shrink()
  }

  /** Never to nothing; a smaller limit stays. */
  #shrink(): void {
    const least = Math.min(10, this.#listing.query.limit ?? 10)
    if (this.#limit !== undefined) this.#limit = Math.min(this.#limit, Math.max(least, this.#limit >> 1))
  }
}

/** Reads a list into a store. @returns its version, or undefined if it was cut short */
export async function listIntoStore(listing: ListIntoStoreOptions): Promise<string | undefined> {
  try {
    return await readPages(listing)
  } catch (error) {
    if (!listing.isOver()) listing.store.abandonList()
    throw error
  }
}

async function readPages(listing: ListIntoStoreOptions): Promise<string | undefined> {
  const { store, clock, isOver } = listing
  let version: string | undefined
  let next: string | undefined
  let complete = true
  const pages = new PageReader(listing)
  do {
    const page = await pages.read(next)
    if (isOver()) return undefined
    if (version === undefined) {
      version = page.resourceVersion
      listing.onVersion?.(versionOf(version))
      if (isOver()) return undefined
      store.beginList()
    }
    await inSlices(takeEach(listing, page.items), clock)
    if (isOver()) return undefined
    next = page.continue
    if (next !== undefined && listing.stopListing?.(page.items)) {
      complete = false
      next = undefined
    }
  } while (next !== undefined)
  await inSlices(store.endList(versionOf(version), complete), clock)
  return isOver() ? undefined : version
}

function* takeEach(
  { take, isOver }: ListIntoStoreOptions,
  items: readonly RawObject[],
): IterableIterator<void> {
  for (const raw of items) {
    if (isOver()) return
    yield take(raw)
  }
}

async function inSlices(steps: Iterable<void>, clock: Clock): Promise<void> {
  let started = clock.monotonic()
  let count = 0
  for (const _ of steps) {
    count += 1
    if (count < SLICE_STEPS && clock.monotonic() - started < SLICE_MS) continue
    await yieldToEventLoop()
    started = clock.monotonic()
    count = 0
  }
}
