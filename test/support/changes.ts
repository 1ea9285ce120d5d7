/** Lets a test wait for a state without polling. */
export class Changes {
  #waiting: (() => void)[] = []

  /** Reports a change. */
  notify(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Resolves when `condition` holds; it is evaluated now and after each `notify`. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}
