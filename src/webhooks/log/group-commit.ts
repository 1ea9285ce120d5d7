import { withoutOwnership } from '../../ha/ownership.ts'
import { type Clock, type DualTimestamp, dualTimestamp } from '../../lib/clock.ts'
import { TokenBucket } from '../../lib/rate-limit.ts'

type WriteRateLimits = {
  /** Begun in a second, on average, where writes are quick. */
  perSecond: number
  /** Begun at once after a rest. */
  burst: number
  /** The time of so many writes is left from one to the next: where the store is slow, fewer begin. Default 0. */
  writesApart?: number
  /** How much of what is written is this process's, 0 to 1, where several write to one store. Default: all. */
  share?: (() => number) | undefined
}

/** Of all who write to the store together, however slow that is. */
const LONGEST_INTERVAL_MS = 50
/** Of one of several: three that are busy begin as many together as one alone. */
const LONGEST_SHARED_MS = 150
/** How much of what was known of their length counts beside the next one. */
const KEPT = 0.8

/**
 * When the next may begin, so that there are no more in a second than that: few pay no wait, and many come evenly. What begins
 * all the same costs the next no more than one interval. Times are milliseconds of the monotonic clock.
 */
export class WriteRateLimiter {
  readonly #limits: WriteRateLimits
  /** How long a write takes of late. */
  #typicalMs = 0
  /** Writes that may begin at once. */
  readonly #credit: TokenBucket

  constructor(limits: WriteRateLimits) {
    this.#limits = limits
    this.#credit = new TokenBucket(limits.burst, (from, to) => (to - from) / this.#intervalMs)
  }

  recordStart(now: number): void {
    this.#credit.set(Math.max(0, this.#credit.available(now) - 1), now)
  }

  /** A write has ended that took so long. */
  recordEnd(ms: number): void {
    this.#typicalMs = this.#typicalMs * KEPT + ms * (1 - KEPT)
  }

  /** 0: at once. */
  waitMs(now: number): number {
    return Math.max(0, 1 - this.#credit.available(now)) * this.#intervalMs
  }

  get #intervalMs(): number {
    const { perSecond, writesApart = 0, share } = this.#limits
    const ofAll = Math.max(1000 / perSecond, Math.min(writesApart * this.#typicalMs, LONGEST_INTERVAL_MS))
    return share ? Math.min(ofAll / share(), Math.max(ofAll, LONGEST_SHARED_MS)) : ofAll
  }
}

/** More waits than may; nothing of the call was taken. */
export class OverloadedError extends Error {
  override readonly name = 'OverloadedError'
}

export type GroupCommitOptions<I, R> = {
  /**
   * Splits what waits into batches to be written on their own, in the order of `waiting`. What it leaves out
   * waits on. Items are told apart by identity.
   */
  plan(waiting: readonly I[]): readonly (readonly I[])[]
  /**
   * Writes a batch and gives one result for each item, in order.
   * @param added when the item in it was that waits longest
   */
  write(batch: readonly I[], added: DualTimestamp): Promise<readonly R[]>
  /** Whether the error says that something in the batch is wrong, so that its halves may do better. */
  isCulprit(error: unknown): boolean
  /** Batches that are written at a time. Default 4. */
  maxInFlight?: number
  /** Items that may wait, those being written aside. */
  maxWaiting: number
  /** How long an item waits for company. Default 0: until the events that are ready have had their turn. */
  lingerMs?: number
  /** How often writes of fewer than `enough` items may begin, so that more share one. Absent: whenever they can. */
  pace?: WriteRateLimits & { enough: number }
  clock: Clock
}

/** `isUrgent`: somebody does nothing else until it is written, so that it does not wait for the pace. */
export type AddOptions = { isUrgent?: boolean }

/** Before any time of the clock. */
const AT_ONCE = Number.NEGATIVE_INFINITY

type Entry<I, R> = {
  item: I
  isUrgent: boolean
  added: DualTimestamp
  resolve(result: R): void
  reject(error: unknown): void
}

/**
 * Group commit: what comes while others are being written, or faster than its pace, shares the next write. Low rates pay
 * no delay, high rates few writes.
 */
export class GroupCommit<I, R> {
  readonly #options: GroupCommitOptions<I, R>
  readonly #maxInFlight: number
  readonly #pace: WriteRateLimiter | undefined
  readonly #writing = new Set<readonly Entry<I, R>[]>()
  #waiting: Entry<I, R>[] = []
  /** Of those that wait. */
  #urgent = 0
  /** The next look at what waits. */
  #look: { at: number; cancel(): void } | undefined
  #draining = 0
  #idle: (() => void)[] = []

  /** A batch is of several shards. */
  readonly #aside = withoutOwnership()

  constructor(options: GroupCommitOptions<I, R>) {
    this.#options = options
    this.#maxInFlight = options.maxInFlight ?? 4
    this.#pace = options.pace && new WriteRateLimiter(options.pace)
  }

  /** Items that wait for their write to begin. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Batches that are being written. */
  get inFlight(): number {
    return this.#writing.size
  }

  /** How long the oldest waiting item waits, in milliseconds; 0 if none does. */
  oldestWaitMs(): number {
    const oldest = this.#waiting[0]
    return oldest ? this.#options.clock.monotonic() - oldest.added.monotonic : 0
  }

  /** The same, and those being written count as well: for how long something could not be written. */
  oldestMs(): number {
    let first = this.#waiting[0]?.added.monotonic ?? Number.POSITIVE_INFINITY
    for (const [entry] of this.#writing)
      if (entry && entry.added.monotonic < first) first = entry.added.monotonic
    return first === Number.POSITIVE_INFINITY ? 0 : this.#options.clock.monotonic() - first
  }

  /** The result once written. @throws OverloadedError, or what the write of this item's batch threw */
  add(item: I, { isUrgent = false }: AddOptions = {}): Promise<R> {
    if (this.#isFull(1)) return Promise.reject(this.#overloaded())
    return this.#enter(item, isUrgent)
  }

  /**
   * Several items, all taken or none, next to each other and in this order; how far they stay in one batch is the
   * plan's business. @throws OverloadedError
   */
  async addAll(items: readonly I[]): Promise<PromiseSettledResult<R>[]> {
    if (this.#isFull(items.length)) throw this.#overloaded()
    return Promise.allSettled(items.map((item) => this.#enter(item)))
  }

  /** Resolves when nothing waits and nothing is being written; nobody lingers meanwhile. */
  async drain(): Promise<void> {
    this.#draining += 1
    this.#pump()
    if (this.#waiting.length > 0 || this.inFlight > 0) {
      await new Promise<void>((resolve) => this.#idle.push(resolve))
    }
    this.#draining -= 1
  }

  #isFull(more: number): boolean {
    return this.#waiting.length + more > this.#options.maxWaiting
  }

  #overloaded(): OverloadedError {
    return new OverloadedError(
      `${this.#waiting.length} items wait already, of at most ${this.#options.maxWaiting}`,
    )
  }

  #enter(item: I, isUrgent = false): Promise<R> {
    const added = dualTimestamp(this.#options.clock)
    if (isUrgent) this.#urgent += 1
    const result = new Promise<R>((resolve, reject) => {
      this.#waiting.push({ item, isUrgent, added, resolve, reject })
    })
    this.#schedule()
    return result
  }

  /** Looks once for all that comes in this turn of the event loop, or when what waits has waited long enough. */
  #schedule(): void {
    if (this.inFlight >= this.#maxInFlight) return
    const { clock } = this.#options
    const left = Math.ceil(this.#waitLeft())
    const at = left > 0 ? clock.monotonic() + left : AT_ONCE
    if (this.#look && this.#look.at <= at) return
    this.#look?.cancel()
    const look = () => {
      this.#look = undefined
      this.#pump()
    }
    if (at === AT_ONCE) {
      const soon = setImmediate(look)
      this.#look = { at, cancel: () => clearImmediate(soon) }
    } else {
      this.#look = { at, cancel: clock.after(left, look) }
    }
  }

  /** How long what waits has to wait on, in milliseconds. */
  #waitLeft(): number {
    if (this.#draining > 0) return 0
    const { lingerMs = 0, pace, clock } = this.#options
    const linger = lingerMs - this.oldestWaitMs()
    if (!pace || !this.#pace || this.#urgent > 0 || this.#waiting.length >= pace.enough) return linger
    return Math.max(linger, this.#pace.waitMs(clock.monotonic()))
  }

  #pump(): void {
    const slots = this.#maxInFlight - this.inFlight
    if (this.#waiting.length > 0 && slots > 0) {
      this.#pace?.recordStart(this.#options.clock.monotonic())
      for (const batch of this.#nextBatches(slots)) void this.#aside(() => this.#write(batch))
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

  /** A plan that fails, or leaves all out while nothing is under way, must neither lose nor hang anything. */
  #plan(items: readonly I[]): readonly (readonly I[])[] {
    try {
      const planned = this.#options.plan(items)
      if (this.inFlight > 0 || planned.some((batch) => batch.length > 0)) return planned
    } catch {
      // Each on its own: the write then says what is wrong with which.
    }
    return items.map((item) => [item])
  }

  async #write(batch: Entry<I, R>[]): Promise<void> {
    const { clock } = this.#options
    const begun = clock.monotonic()
    this.#writing.add(batch)
    await this.#writeOrSplit(batch)
    this.#writing.delete(batch)
    this.#pace?.recordEnd(clock.monotonic() - begun)
    if (this.#waiting.length > 0 && this.#waitLeft() > 0) this.#schedule()
    else this.#pump()
  }

  /** Halves one after the other: what was added first is written first. */
  async #writeOrSplit(batch: Entry<I, R>[]): Promise<void> {
    try {
      const { added } = batch.reduce((first, entry) =>
        entry.added.monotonic < first.added.monotonic ? entry : first,
      )
      const items = batch.map((entry) => entry.item)
      const results = await this.#options.write(items, added)
      if (results.length !== batch.length) {
        throw new Error(`the write gave ${results.length} results for ${batch.length} items`)
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

/** Equal items (strings, say) can stand for each other: the first added goes first. */
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
