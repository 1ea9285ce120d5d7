import { RecentSet } from '../lib/lru.ts'
import { fingerprintOf } from '../webhooks/sender/domain-signature.ts'

const MAX_UNSEEN = 10_000

/**
 * Signing secrets that this process made for requests that failed afterwards: nobody has seen them. A repeat of the
 * request may show its own, once, and the next roll takes them out of force.
 */
export class UndisclosedSecrets {
  readonly #fingerprints = new RecentSet(MAX_UNSEEN)

  has(secret: string): boolean {
    return this.#fingerprints.has(fingerprintOf(secret))
  }

  /** It may be stored, and is shown to nobody. */
  add(secret: string): void {
    this.#fingerprints.add(fingerprintOf(secret))
  }

  /**
   * Does what has to be done before the secret may be shown.
   * @param isNew whether it was made just now
   * @returns what `work` gave, and whether nobody has been shown it; of several who ask at a time, one hears that
   */
  async whenDone<T>(
    secret: string,
    isNew: boolean,
    work: () => Promise<T>,
  ): Promise<{ result: T; isUnseen: boolean }> {
    const isUnseen = isNew || this.has(secret)
    this.#fingerprints.delete(fingerprintOf(secret))
    try {
      return { result: await work(), isUnseen }
    } catch (error) {
      if (isUnseen) this.add(secret)
      throw error
    }
  }
}
