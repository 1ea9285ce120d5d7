/**
 * Keys that share a limit on how many of them are worked on at a time, so that the many of one owner leave room for those of
 * others. What has no room waits here, in the order in which it came.
 */

export type ConcurrencyGroup = { name: string; limit: number }
/** Asked whenever a key is to be worked on: a key may change its lane. */
export type ConcurrencyGroupOf = (key: string) => ConcurrencyGroup

export class ConcurrencyGroups {
  readonly #groupOf: ConcurrencyGroupOf | undefined
  /** Lanes of the keys that are worked on, and how many each lane has. */
  readonly #groupOfWorking = new Map<string, string>()
  readonly #working = new Map<string, number>()
  /** Keys that wait, by lane, and the lane of each. */
  readonly #waiting = new Map<string, Set<string>>()
  readonly #groupOfWaiting = new Map<string, string>()

  constructor(laneOf: ConcurrencyGroupOf | undefined) {
    this.#groupOf = laneOf
  }

  /** Keys that wait for room. */
  get waiting(): number {
    return this.#groupOfWaiting.size
  }

  /** Whether it may be worked on now; else it waits for room. */
  enter(key: string): boolean {
    if (!this.#groupOf || this.#groupOfWorking.has(key)) return true
    const { name, limit } = this.#groupOf(key)
    const working = this.#working.get(name) ?? 0
    if (working >= limit) {
      this.#wait(key, name)
      return false
    }
    this.#working.set(name, working + 1)
    this.#groupOfWorking.set(key, name)
    return true
  }

  /** The work on it has ended. @returns a key that takes its place, and waits for nothing but to be worked on */
  leave(key: string): string | undefined {
    const lane = this.#groupOfWorking.get(key)
    if (lane === undefined) return undefined
    this.#groupOfWorking.delete(key)
    const [next] = this.#waiting.get(lane) ?? []
    if (next !== undefined) {
      this.#forget(next, lane)
      this.#groupOfWorking.set(next, lane)
      return next
    }
    const working = (this.#working.get(lane) ?? 1) - 1
    if (working > 0) this.#working.set(lane, working)
    else this.#working.delete(lane)
    return undefined
  }

  /** Whether it goes on waiting where it is; in another lane there may be room. */
  staysWaiting(key: string): boolean {
    const lane = this.#groupOfWaiting.get(key)
    if (lane === undefined) return false
    if (this.#groupOf?.(key).name === lane) return true
    this.#forget(key, lane)
    return false
  }

  /** Nothing waits any more. */
  clear(): void {
    this.#waiting.clear()
    this.#groupOfWaiting.clear()
  }

  #wait(key: string, lane: string): void {
    const keys = this.#waiting.get(lane) ?? new Set()
    this.#waiting.set(lane, keys.add(key))
    this.#groupOfWaiting.set(key, lane)
  }

  #forget(key: string, lane: string): void {
    this.#groupOfWaiting.delete(key)
    const keys = this.#waiting.get(lane)
    keys?.delete(key)
    if (keys?.size === 0) this.#waiting.delete(lane)
  }
}
