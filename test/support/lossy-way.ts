import { ApiError, type ResourceReader, type ResourceWriter } from '../../src/kube/client.ts'
import type { Clock } from '../../src/lib/time.ts'

/** Timeout of a call. */
const DEADLINE_MS = 10_000
/** How late a timed-out call may still take effect: longer than others wait for a replica that is gone. */
const LATEST_MS = 60_000

/**
 * The connection of one process to the store. A lost call has no effect, or its answer is lost, or it takes effect long after its
 * caller has timed out.
 */
export class LossyWay {
  readonly #clock: Clock
  readonly #chance: () => number
  /** Whether nothing goes through. */
  isCut = false
  /** Share of the calls that are lost. */
  lost = 0

  constructor(clock: Clock, chance: () => number) {
    this.#clock = clock
    this.#chance = chance
  }

  /** @param mayBeLate whether a call that starts now may take effect after all others */
  api(store: ResourceReader & ResourceWriter, mayBeLate: () => boolean): ResourceReader & ResourceWriter {
    const call = async <T>(effect: () => Promise<T>): Promise<T> => {
      if (this.#isLost()) return await this.#lose(effect)
      if (mayBeLate() && this.#chance() < 0.3) return await this.#after(this.#chance() * LATEST_MS, effect)
      const answer = await effect()
      return this.#isLost() ? await this.#unanswered() : answer
    }
    return {
      get: (...args) => call(() => store.get(...args)),
      list: (...args) => call(() => store.list(...args)),
      create: (...args) => call(() => store.create(...args)),
      patch: (...args) => call(() => store.patch(...args)),
      delete: (...args) => call(() => store.delete(...args)),
    }
  }

  #isLost(): boolean {
    return this.isCut || (this.lost > 0 && this.#chance() < this.lost)
  }

  async #lose<T>(effect: () => Promise<T>): Promise<T> {
    const fate = this.#chance()
    if (fate < 0.3) await effect().catch(() => undefined)
    else if (fate < 0.6) this.#after(this.#chance() * LATEST_MS, effect).catch(() => undefined)
    return await this.#unanswered()
  }

  async #unanswered(): Promise<never> {
    await this.#after(DEADLINE_MS, async () => undefined)
    throw new ApiError('Unavailable', 'no answer')
  }

  async #after<T>(ms: number, effect: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => void this.#clock.after(Math.floor(ms), resolve))
    return await effect()
  }
}
