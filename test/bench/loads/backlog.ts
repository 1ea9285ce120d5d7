/** How far ahead of the deliveries that have settled a load may be. */
export class Backlog {
  readonly #limit: number
  #settled = 0
  #waiting: (() => void)[] = []

  /** @param limit deliveries that are accepted and have not settled */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** So many have settled since the load began. */
  settled(deliveries: number): void {
    this.#settled = deliveries
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Resolves when one more fits in. @param accepted so far, read again after every wait */
  async room(accepted: () => number): Promise<void> {
    while (accepted() - this.#settled >= this.#limit) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }
}
