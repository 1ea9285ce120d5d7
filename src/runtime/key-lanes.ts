/**
 * Keys that share a limit on how many of them are worked on at a time, so that the many of one owner leave room for those of
 * others. What has no room waits here, in the order in which it came.
 */

export type Lane = { name: string; limit: number }
/** Asked whenever a key is to be worked on: a key may change its lane. */
export type LaneOf = (key: string) => Lane

export class KeyLanes {
  readonly #laneOf: LaneOf | undefined
  /** Lanes of the keys that are worked on, and how many each lane has. */
  readonly #laneOfWorking = new Map<string, string>()
  readonly #working = new Map<string, number>()
  /** Keys that wait, by lane, and the lane of each. */
  readonly #waiting = new Map<string, Set<string>>()
  readonly #laneOfWaiting = new Map<string, string>()

  constructor(laneOf: LaneOf | undefined) {
    this.#laneOf = laneOf
  }

  /** Keys that wait for room. */
  get waiting(): number {
    return this.#laneOfWaiting.size
  }

  /** Whether it may be worked on now; else it waits for room. */
  enter(key: string): boolean {
    if (!this.#laneOf || this.#laneOfWorking.has(key)) return true
    const { name, limit } = this.#laneOf(key)
    const working = this.#working.get(name) ?? 0
    if (working >= limit) {
      this.#wait(key, name)
      return false
    }
    this.#working.set(name, working + 1)
    this.#laneOfWorking.set(key, name)
    return true
  }

  /** The work on it has ended. @returns a key that takes its place, and waits for nothing but to be worked on */
  leave(key: string): string | undefined {
    const lane = this.#laneOfWorking.get(key)
    if (lane === undefined) return undefined
    this.#laneOfWorking.delete(key)
    const [next] = this.#waiting.get(lane) ?? []
    if (next !== undefined) {
      this.#forget(next, lane)
      this.#laneOfWorking.set(next, lane)
      return next
    }
    const working = (this.#working.get(lane) ?? 1) - 1
    if (working > 0) this.#working.set(lane, working)
    else this.#working.delete(lane)
    return undefined
  }

  /** Whether it goes on waiting where it is; in another lane there may be room. */
  keeps(key: string): boolean {
    const lane = this.#laneOfWaiting.get(key)
    if (lane === undefined) return false
    if (this.#laneOf?.(key).name === lane) return true
    this.#forget(key, lane)
    return false
  }

  /** Nothing waits any more. */
  clear(): void {
    this.#waiting.clear()
    this.#laneOfWaiting.clear()
  }

  #wait(key: string, lane: string): void {
    const keys = this.#waiting.get(lane) ?? new Set()
    this.#waiting.set(lane, keys.add(key))
    this.#laneOfWaiting.set(key, lane)
  }

  #forget(key: string, lane: string): void {
    this.#laneOfWaiting.delete(key)
    const keys = this.#waiting.get(lane)
    keys?.delete(key)
    if (keys?.size === 0) this.#waiting.delete(lane)
  }
}
