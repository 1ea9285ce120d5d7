/**
 * Queues, and fairness among groups (organizations): turns, so that the many items of one group delay only that group, and shares, so that some
 * capacity is always left to groups that use little of it.
 */

/** Slots before the first item that may stay unused. */
const MAX_SLACK = 1024

/** A first-in-first-out queue with cheap ends (an array's `shift` copies). It does not keep what was taken out in memory. */
export class Fifo<T> {
  #items: (T | undefined)[] = []
  #start = 0

  get size(): number {
    return this.#items.length - this.#start
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined
    const item = this.#items[this.#start]
    this.#items[this.#start] = undefined
    this.#start += 1
    if (this.size === 0) this.clear()
    else if (this.#start > MAX_SLACK && this.#start * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#start)
      this.#start = 0
    }
    return item
  }

  /** @param index counted from the oldest item, which has 0; undefined if there are fewer */
  at(index: number): T | undefined {
    return this.#items[this.#start + index]
  }

  /** Takes out the newest item. */
  pop(): T | undefined {
    if (this.size === 0) return undefined
    const item = this.#items.pop()
    if (this.size === 0) this.clear()
    return item
  }

  clear(): void {
    this.#items = []
    this.#start = 0
  }
}

/** A queue with turns by group: each `take` serves the group that has waited longest, and its oldest item. */
export class FairQueue<T> {
  /** In the order of the next turns. */
  readonly #groups = new Map<string, Fifo<T>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  push(group: string, item: T): void {
    const items = this.#groups.get(group) ?? new Fifo<T>()
    if (items.size === 0) this.#groups.set(group, items)
    items.push(item)
    this.#size += 1
  }

  /** @param mayTake false for a group whose turn has to wait; it keeps its place */
  take(mayTake: (group: string) => boolean = () => true): T | undefined {
    for (const [group, items] of this.#groups) {
      if (!mayTake(group)) continue
      const item = items.shift()
      this.#size -= 1
      // To the end of the order.
      this.#groups.delete(group)
      if (items.size > 0) this.#groups.set(group, items)
      return item
    }
    return undefined
  }

  /** Takes the newest item of the group that has the most, unless `group` would then have as many. */
  takeFromLargest(group: string): T | undefined {
    let largest: Fifo<T> | undefined
    let most = (this.#groups.get(group)?.size ?? 0) + 1
    for (const items of this.#groups.values()) {
      if (items.size <= most) continue
      largest = items
      most = items.size
    }
    if (largest) this.#size -= 1
    return largest?.pop()
  }

  clear(): void {
    this.#groups.clear()
    this.#size = 0
  }
}

/** Sums by key, and their total. A key whose sum is zero takes no memory. */
export class KeyedSums {
  readonly #sums = new Map<string, number>()
  readonly #maxPerKey: number
  #total = 0
  #fairTotal = 0

  /** @param maxPerKey of one key in `fairTotal`; default: everything */
  constructor(maxPerKey = Number.POSITIVE_INFINITY) {
    this.#maxPerKey = maxPerKey
  }

  get total(): number {
    return this.#total
  }

  /** The total in which a key counts no more than it may have, so that one that has more stops itself and not the others. */
  get fairTotal(): number {
    return this.#fairTotal
  }

  of(key: string): number {
    return this.#sums.get(key) ?? 0
  }

  add(key: string, by: number): void {
    const before = this.of(key)
    const sum = before + by
    this.#total += by
    this.#fairTotal += Math.min(sum, this.#maxPerKey) - Math.min(before, this.#maxPerKey)
    if (sum === 0) this.#sums.delete(key)
    else this.#sums.set(key, sum)
  }
}

/** What is used of something limited, or its limits: by one organization, and by all. */
export type Usage = { organization: number; all: number }

/** Share of the total for organizations that use little, so that full ones do not block the rest. */
const RESERVE = 0.1
/** At least this many organizations get a share of the reserve. */
const SHARES = 20

/** How much more an organization may use; 0 if none. @param leastShare of the reserve, then for fewer organizations */
export function remainingShare(used: Usage, limits: Usage, leastShare = 0): number {
  const reserve = Math.floor(limits.all * RESERVE)
  const own = limits.organization - used.organization
  const unreserved = limits.all - reserve - used.all
  const share = Math.min(shareOf(reserve, leastShare) - used.organization, limits.all - used.all)
  return Math.max(0, Math.min(own, Math.max(unreserved, share)))
}

function shareOf(reserve: number, least: number): number {
  return Math.min(reserve, Math.max(Math.ceil(reserve / SHARES), least))
}

/** A capacity that organizations share, in whatever unit: attempts, bytes. */
export class SharedCapacity {
  readonly #max: number
  readonly #maxOfOrganization: number
  readonly #used: KeyedSums

  /** @param maxOfOrganization default: all but the reserve */
  constructor(max: number, maxOfOrganization = max) {
    this.#max = max
    this.#maxOfOrganization = maxOfOrganization
    this.#used = new KeyedSums(Math.min(maxOfOrganization, max - Math.floor(max * RESERVE)))
  }

  get used(): number {
    return this.#used.total
  }

  get isFull(): boolean {
    return this.#used.total >= this.#max
  }

  /** Only the reserve for organizations that use little is left. */
  get isScarce(): boolean {
    return this.#used.total >= this.#max - Math.floor(this.#max * RESERVE)
  }

  /**
   * Whether the organization may take something, of whatever size: one thing that is larger than what is left is let through, so that
   * nothing waits for ever.
   */
  hasRoom(organization: string): boolean {
    // Not everything that is taken was asked for: one organization with too much must not stop the others.
    const used = { organization: this.#used.of(organization), all: this.#used.fairTotal }
    return remainingShare(used, { organization: this.#maxOfOrganization, all: this.#max }) > 0
  }

  take(organization: string, amount: number): void {
    this.#used.add(organization, amount)
  }

  give(organization: string, amount: number): void {
    this.#used.add(organization, -amount)
  }
}
