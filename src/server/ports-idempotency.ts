/** Idempotency-Keys: one request, one effect, for 24 hours, across replicas and restarts of the facade. */

/** A request that came with a key. */
export type KeyedRequest = {
  organization: string
  /** Name of the operation: a key stands for one request of it. */
  operation: string
  /** Value of Idempotency-Key. */
  key: string
  /** What was asked for, as text; the same for the same request. It is kept as a keyed hash alone. */
  asked: string
}

/** What stands for the request in the log: both are keyed hashes. */
export type KeyMark = { key: string; fingerprint: string }

/** The place in the log that counts for a key. */
export type FirstAppend = {
  /** The 26 characters of the id that it was accepted under. */
  id: string
  deliveries: number
  /** Of its first delivery, or of the record itself. */
  version: number
  index: number
}

export interface IdempotencyKeys {
  /**
   * Appends what the request makes, unless it was appended before, and waits until the log has shown which place is
   * the first.
   * @param append appends under the mark, and gives the id; it is called at most once
   * @returns the place that counts; `replayed` where another request made it
   * @throws RefusedError idempotency_conflict, overloaded (as many keys as may be, or the log cannot be watched),
   * unavailable (the log did not show it in time); and what `append` throws
   */
  once(
    request: KeyedRequest,
    append: (mark: KeyMark) => Promise<string>,
  ): Promise<{ first: FirstAppend; replayed: boolean }>
  /**
   * The same for what is made outside of the log: a record first, under whose id `act` makes it; then a note that
   * it is made. A repeat calls `act` only where the first ended before that note.
   * @param steps `check` throws where the request cannot be done; it is not called for a repeat. `act` makes it, or
   * finds what an earlier call under this id has made
   * @returns what `act` gave, absent where it was made before
   */
  around<T>(
    request: KeyedRequest,
    steps: { check?: () => Promise<void>; act: (id: string) => Promise<T> },
  ): Promise<{ id: string; result?: T; replayed: boolean }>
}
