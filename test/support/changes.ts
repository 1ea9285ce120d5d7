/** Lets a test wait for a state of the world without looking at it again and again. */
export class Changes {
  #waiting: (() => void)[] = []

  /** Something happened. */
  notify(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Resolves once `condition` holds; it is looked at now and after each `notify`. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}
