import type { Clock } from '../../lib/ports-clock.ts'

/** For so long an answer may be of a time before a write; seen are a few seconds. */
const LAG_MS = 5000
/** AWS says to wait so long before a name is used again that was deleted. */
const NAME_FREE_MS = 30_000
const MOST = 5000

export type RecentWrite =
  | { name: string; done: 'written'; version: number }
  | { name: string; done: 'removed' }

type Noted = { place: string; write: RecentWrite; at: number }

/**
 * What this process wrote a short while ago: Parameter Store promises nobody that a read shows the last write, so that an answer
 * which contradicts it is asked for again.
 */
export class ReadLagGuard {
  readonly #clock: Clock
  /** By account, region and name; oldest first. */
  readonly #writes = new Map<string, Noted>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param place account and region */
  note(place: string, write: RecentWrite): void {
    this.#forgetOld()
    const key = `${place} ${write.name}`
    this.#writes.delete(key)
    this.#writes.set(key, { place, write, at: this.#clock.monotonic() })
  }

  lastOf(place: string, name: string): RecentWrite | undefined {
    const last = this.#writes.get(`${place} ${name}`)
    return last && this.#isRecent(last) ? last.write : undefined
  }

  under(place: string, prefix: string): RecentWrite[] {
    return [...this.#writes.values()]
      .filter((one) => one.place === place && one.write.name.startsWith(prefix) && this.#isRecent(one))
      .map(({ write }) => write)
  }

  #isRecent({ write, at }: Noted): boolean {
    return this.#clock.monotonic() - at < (write.done === 'removed' ? NAME_FREE_MS : LAG_MS)
  }

  #forgetOld(): void {
    for (const [key, noted] of this.#writes) {
      const isOld = this.#clock.monotonic() - noted.at >= NAME_FREE_MS
      if (!isOld && this.#writes.size < MOST) return
      this.#writes.delete(key)
    }
  }
}
