import { ownershipHere } from '../../ha/ownership.ts'
import { TokenBucket } from '../../lib/rate-limit.ts'
import { type Clock, type DualTimestamp, dualTimestamp } from '../../lib/time.ts'

/**
 * Group commit: items that arrive while others are being written, or faster than the write rate, share the next write. At a low rate an
 * item does not wait; at a high rate there are few writes. The delivery log is written this way, see README.md.
 */

type WriteRateLimits = {
  /** Writes that start per second on average, if the store is fast. */
  perSecond: number
  /** Writes that may start at once after a pause. */
  burst: number
  /** Leaves the duration of this many writes between two starts, so that a slow store gets fewer. Default 0. */
  writesApart?: number
  /** This process's share of all writes to the store, 0 to 1. Default: all. */
  share?: (() => number) | undefined
}

/** For all writers together, however slow the store is. */
const LONGEST_INTERVAL_MS = 50
/** For one of several writers: three busy ones start as many together as one alone. */
const LONGEST_SHARED_MS = 150
/** Weight of the earlier durations in the moving average. */
const SMOOTHING = 0.8

/**
 * A token bucket for the start of writes: single writes do not wait, many are spread evenly. A write that starts without a token costs
 * the next one at most one interval. Times are milliseconds of the monotonic clock.
 */
export class WriteRateLimiter {
  readonly #limits: WriteRateLimits
  #typicalMs = 0
  readonly #credit: TokenBucket

  constructor(limits: WriteRateLimits) {
    this.#limits = limits
    this.#credit = new TokenBucket(limits.burst, (from, to) => (to - from) / this.#intervalMs)
  }

  recordStart(now: number): void {
    this.#credit.set(Math.max(0, this.#credit.available(now) - 1), now)
  }

  recordEnd(ms: number): void {
    this.#typicalMs = this.#typicalMs * SMOOTHING + ms * (1 - SMOOTHING)
  }

  waitMs(now: number): number {
    return Math.max(0, 1 - this.#credit.available(now)) * this.#intervalMs
  }

  get #intervalMs(): number {
    const { perSecond, writesApart = 0, share } = this.#limits
    const total = Math.max(1000 / perSecond, Math.min(writesApart * this.#typicalMs, LONGEST_INTERVAL_MS))
    return share ? Math.min(total / share(), Math.max(total, LONGEST_SHARED_MS)) : total
  }
}

/** The queue is full; the item was not added. */
export class OverloadedError extends Error {
  override readonly name = 'OverloadedError'
}

export type GroupCommitOptions<I, R> = {
  /** Splits waiting items into batches, in order. Items that it leaves out wait on. Items are compared by identity. */
  plan(waiting: readonly I[]): readonly (readonly I[])[]
  /** Writes a batch and returns one result per item, in order. @param added when its oldest item was added */
  write(batch: readonly I[], added: DualTimestamp): Promise<readonly R[]>
  /** Whether the error is about an item of the batch, so that its halves may succeed. */
  isCulprit(error: unknown): boolean
  /** Concurrent writes. Default 4. */
  maxInFlight?: number
  /** Not counting those being written. */
  maxWaiting: number
  /** How long an item waits for others to share its write. Default 0: one turn of the event loop. */
  lingerMs?: number
  /** Rate limit for writes of fewer than `enough` items. Absent: no limit. */
  pace?: WriteRateLimits & { enough: number }
  clock: Clock
}

/** Before any time of the clock. */
const AT_ONCE = Number.NEGATIVE_INFINITY

type Entry<I, R> = {
  item: I
  isUrgent: boolean
  added: DualTimestamp
  resolve(result: R): void
  reject(error: unknown): void
}

export class GroupCommit<I, R> {
  readonly #options: GroupCommitOptions<I, R>
  readonly #maxInFlight: number
  readonly #rate: WriteRateLimiter | undefined
  readonly #writing = new Set<readonly Entry<I, R>[]>()
  #waiting: Entry<I, R>[] = []
  #urgent = 0
  /** The timer for the next write. */
  #timer: { at: number; cancel(): void } | undefined
  #draining = 0
  #idle: (() => void)[] = []
  /** A batch holds items of several shards. */
  readonly #unowned = ownershipHere()

  constructor(options: GroupCommitOptions<I, R>) {
    this.#options = options
    this.#maxInFlight = options.maxInFlight ?? 4
    this.#rate = options.pace && new WriteRateLimiter(options.pace)
  }

  get waiting(): number {
    return this.#waiting.length
  }

  get inFlight(): number {
    return this.#writing.size
  }

  /** How long the oldest waiting item has waited, in milliseconds; 0 if none waits. */
  oldestWaitMs(): number {
    const oldest = this.#waiting[0]
    return oldest ? this.#options.clock.monotonic() - oldest.added.monotonic : 0
  }

  /** The same, including items that are being written. */
  oldestMs(): number {
    let first = this.#waiting[0]?.added.monotonic ?? Number.POSITIVE_INFINITY
    for (const [entry] of this.#writing)
      if (entry && entry.added.monotonic < first) first = entry.added.monotonic
    return first === Number.POSITIVE_INFINITY ? 0 : this.#options.clock.monotonic() - first
  }

  /**
   * Resolves with the result of the write. @param isUrgent the caller is blocked until it is written, so skip the rate limit
   * @throws OverloadedError, or the error of the batch
   */
  add(item: I, { isUrgent = false }: { isUrgent?: boolean } = {}): Promise<R> {
    const { clock, maxWaiting } = this.#options
    if (this.waiting >= maxWaiting)
      return Promise.reject(
        new OverloadedError(
          `the write queue is full: ${this.waiting} of at most ${maxWaiting} items are waiting`,
        ),
      )
    const added = dualTimestamp(clock)
    if (isUrgent) this.#urgent += 1
    const result = new Promise<R>((resolve, reject) => {
      this.#waiting.push({ item, isUrgent, added, resolve, reject })
    })
    this.#schedule()
    return result
  }

  /** Resolves when nothing waits and nothing is being written; until then items do not wait for others. */
  async drain(): Promise<void> {
    this.#draining += 1
    this.#pump()
    if (this.#waiting.length > 0 || this.inFlight > 0) {
      await new Promise<void>((resolve) => this.#idle.push(resolve))
    }
    this.#draining -= 1
  }

  /** Schedules the next write: after this turn of the event loop, or when the waiting items have waited long enough. */
  #schedule(): void {
    if (this.inFlight >= this.#maxInFlight) return
    const { clock } = this.#options
    const left = Math.ceil(this.#waitLeft())
    const at = left > 0 ? clock.monotonic() + left : AT_ONCE
    if (this.#timer && this.#timer.at <= at) return
    this.#timer?.cancel()
    const write = () => {
      this.#timer = undefined
      this.#pump()
    }
    if (at === AT_ONCE) {
      const soon = setImmediate(write)
      this.#timer = { at, cancel: () => clearImmediate(soon) }
    } else {
      this.#timer = { at, cancel: clock.after(left, write) }
    }
  }

  /** How much longer the waiting items have to wait, in milliseconds. */
  #waitLeft(): number {
    if (this.#draining > 0) return 0
    const { lingerMs = 0, pace, clock } = this.#options
    const linger = lingerMs - this.oldestWaitMs()
    if (!pace || !this.#rate || this.#urgent > 0 || this.#waiting.length >= pace.enough) return linger
    return Math.max(linger, this.#rate.waitMs(clock.monotonic()))
  }

  #pump(): void {
    const slots = this.#maxInFlight - this.inFlight
    if (this.#waiting.length > 0 && slots > 0) {
      this.#rate?.recordStart(this.#options.clock.monotonic())
      for (const batch of this.#nextBatches(slots)) void this.#unowned(() => this.#write(batch))
    }
    if (this.#waiting.length > 0 || this.inFlight > 0) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  #nextBatches(slots: number): Entry<I, R>[][] {
    const waiting = this.#waiting
    const byItem = entriesByItem(waiting)
    const batches = this.#plan(waiting.map((entry) => entry.item))
      .slice(0, slots)
      .map((items) => takeEntries(items, byItem))
      .filter((batch) => batch.length > 0)
    const taken = new Set(batches.flat())
    this.#waiting = waiting.filter((entry) => !taken.has(entry))
    if (this.#urgent > 0) this.#urgent = this.#waiting.filter(({ isUrgent }) => isUrgent).length
    return batches
  }

  /** A plan that throws, or leaves everything out while nothing is in flight, must not lose or block items. */
  #plan(items: readonly I[]): readonly (readonly I[])[] {
    try {
      const planned = this.#options.plan(items)
      if (this.inFlight > 0 || planned.some((batch) => batch.length > 0)) return planned
    } catch {
      // Write them one by one, so that the write reports the bad one.
    }
    return items.map((item) => [item])
  }

  async #write(batch: Entry<I, R>[]): Promise<void> {
    const { clock } = this.#options
    const started = clock.monotonic()
    this.#writing.add(batch)
    await this.#writeOrSplit(batch)
    this.#writing.delete(batch)
    this.#rate?.recordEnd(clock.monotonic() - started)
    if (this.#waiting.length > 0 && this.#waitLeft() > 0) this.#schedule()
    else this.#pump()
  }

  /** Writes the halves one after the other, to keep the order. */
  async #writeOrSplit(batch: Entry<I, R>[]): Promise<void> {
    try {
      const { added } = batch.reduce((first, entry) =>
        entry.added.monotonic < first.added.monotonic ? entry : first,
      )
      const items = batch.map((entry) => entry.item)
      const results = await this.#options.write(items, added)
      if (results.length !== batch.length) {
        throw new Error(`the write returned ${results.length} results for ${batch.length} items`)
      }
      batch.forEach((entry, index) => {
        entry.resolve(results[index] as R)
      })
    } catch (error) {
      if (batch.length > 1 && this.#options.isCulprit(error)) {
        const middle = Math.ceil(batch.length / 2)
        await this.#writeOrSplit(batch.slice(0, middle))
        await this.#writeOrSplit(batch.slice(middle))
        return
      }
      for (const entry of batch) entry.reject(error)
    }
  }
}

/** Equal items (such as strings) are interchangeable: the first added goes first. */
function entriesByItem<I, R>(waiting: readonly Entry<I, R>[]): Map<I, Entry<I, R>[]> {
  const byItem = new Map<I, Entry<I, R>[]>()
  for (let index = waiting.length - 1; index >= 0; index -= 1) {
    const entry = waiting[index]
    if (!entry) continue
    const same = byItem.get(entry.item)
    if (same) same.push(entry)
    else byItem.set(entry.item, [entry])
  }
  return byItem
}

function takeEntries<I, R>(items: readonly I[], byItem: Map<I, Entry<I, R>[]>): Entry<I, R>[] {
  const entries: Entry<I, R>[] = []
  for (const item of items) {
    const entry = byItem.get(item)?.pop()
    if (entry) entries.push(entry)
  }
  return entries
}
