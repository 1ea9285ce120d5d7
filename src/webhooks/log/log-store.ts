import type { RawObject } from '../../kube/client.ts'
import type { InformerHandler, InformerOptions } from '../../kube/informer.ts'
import type { Store } from '../../kube/store.ts'
import type { Watch } from '../../kube/watch-restarts.ts'

/**
 * Where the delivery log is kept: two sequences of segments that are appended and deleted, and never change. Every other part of the log
 * is written against this port. kubernetes-store.ts is the only implementation in the product; log-store-contract.ts says in tests what
 * another one has to do.
 */

/** The accepted events with their deliveries, and the outcomes. */
export type Sequence = 'events' | 'outcomes'

/**
 * A segment in the form of a Kubernetes object: a name, a version (`resourceVersion`, which orders the segments of both sequences as they
 * were written), the time of its creation, and the spec. Its spec is not checked yet.
 */
export type StoredSegment = RawObject

export type NewSegment = {
  /** Made at each try, since it has the time of the write. */
  specOf: () => Record<string, unknown>
  /** It has claims or releases of shards (`claimsOnly` of a page finds it). */
  hasClaims?: boolean
}

/** How an append behaves while the store fails. */
export type AppendRules = {
  /** Retries only transient errors, for this long. Absent: retries every error until `signal` aborts. */
  deadlineMs?: number
  /** Once it is false, no write is started. Absent: always true. */
  mayBegin?: () => boolean
  /** While it is false, waits without counting a failure. Absent: always true. */
  mayTry?: () => boolean
  signal?: AbortSignal
}

/** @property next where the following page starts; absent for the last one */
export type SegmentPage = { segments: StoredSegment[]; version: number; next?: string }

/** @property claimsOnly segments with claims or releases of shards */
export type PageQuery = { limit: number; claimsOnly?: boolean }

/** What a reader does with the segments of a sequence, which it gets each once: first those that exist, then those that are appended. */
export type Feed<T> = Pick<
  InformerOptions<T>,
  'decode' | 'onStoreRestored' | 'gapDetection' | 'largestPage' | 'listBudget'
> & {
  /** Segments for each page of the first list. */
  pageSize: number
  /** May end the first list, which goes backwards, after a page. */
  stopListing?: (page: readonly StoredSegment[]) => boolean
  /** In the order of the log. */
  handler?: InformerHandler<T>
  /** In the order of the list, then in that of the log, for readers of the whole log. */
  store?: Store<T>
}

export interface LogStore {
  /**
   * Appends a segment once, however often an answer is lost.
   * @returns its name and version @throws ApiError with a deadline: permanent errors at once, transient ones after it
   */
  append(sequence: Sequence, segment: NewSegment, rules?: AppendRules): Promise<StoredSegment>
  /** Follows a sequence; the caller starts and stops it. */
  feed<T>(sequence: Sequence, feed: Feed<T>): Watch
  /** A page of a sequence by name, the newest first. @param from `next` of the page before @throws ApiError */
  page(sequence: Sequence, query: PageQuery, from?: string): Promise<SegmentPage>
  /** Undefined if there is none of that name (any more). @throws ApiError */
  read(sequence: Sequence, name: string): Promise<StoredSegment | undefined>
  /** Does nothing if it is gone already. @throws ApiError */
  remove(sequence: Sequence, name: string): Promise<void>
}

/** All segments of a sequence, the newest first. @throws ApiError */
export async function* scanBackwards(
  store: Pick<LogStore, 'page'>,
  sequence: Sequence,
  limit: number,
): AsyncGenerator<StoredSegment, void> {
  let from: string | undefined
  do {
    const { segments, next } = await store.page(sequence, { limit }, from)
    yield* segments
    from = next
  } while (from !== undefined)
}
