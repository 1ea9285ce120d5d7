/** What has been received so far. */
import type { Received } from './receiver.ts'

export class Summary {
  #attempts = 0
  #delivered = 0
  #failed = 0
  #unverified = 0
  readonly #waiting: { count: number; resolve: () => void }[] = []

  get unverified(): number {
    return this.#unverified
  }

  add({ verified, code }: Received): void {
    this.#attempts += 1
    if (!verified) this.#unverified += 1
    if (code === 200) this.#delivered += 1
    else this.#failed += 1
    for (const { count, resolve } of this.#waiting) if (this.#delivered >= count) resolve()
  }

  /** Resolves when so many deliveries have succeeded. */
  delivered(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ count, resolve }))
  }

  lines(): string[] {
    const verified = this.#attempts - this.#unverified
    return [
      `${this.#delivered} deliveries succeeded, ${this.#failed} attempts were answered with an error on purpose.`,
      `${verified} of ${this.#attempts} signatures verified.`,
    ]
  }
}
