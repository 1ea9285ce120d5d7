/** What the receiver has received so far. */
import { counted } from '../src/lib/text.ts'
import type { Received } from './receiver.ts'

export class Summary {
  #attempts = 0
  #delivered = 0
  #unverified = 0
  readonly #waiting: { count: number; resolve: () => void }[] = []
  readonly #refused = Promise.withResolvers<void>()

  get unverified(): number {
    return this.#unverified
  }

  add({ verified, code }: Received): void {
    this.#attempts += 1
    if (!verified) {
      this.#unverified += 1
      this.#refused.resolve()
    }
    if (code === 200) this.#delivered += 1
    for (const { count, resolve } of this.#waiting) if (this.#delivered >= count) resolve()
  }

  /** Resolves when this many deliveries have succeeded. */
  delivered(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ count, resolve }))
  }

  /** Resolves when a signature did not verify. */
  refused(): Promise<void> {
    return this.#refused.promise
  }

  lines(): string[] {
    const verified = this.#attempts - this.#unverified
    const onPurpose = this.#attempts - this.#delivered - this.#unverified
    return [
      `${counted(this.#delivered, 'delivery', 'deliveries')} succeeded; the receiver rejected ` +
        `${counted(onPurpose, 'attempt')} on purpose.`,
      `${verified} of ${counted(this.#attempts, 'signature')} verified.`,
    ]
  }
}
