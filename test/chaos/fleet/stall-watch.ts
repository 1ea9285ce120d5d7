/** How long this process itself stood still: what it saw then, it saw late. */
const EVERY_MS = 20

/** Shorter ones are everyday life. */
const NOTED_MS = 8

/** Times by `performance.now()`. */
export type Stall = { from: number; to: number }

export class StallWatch {
  readonly stalls: Stall[] = []
  #last = performance.now()
  readonly #timer: NodeJS.Timeout

  private constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now()
      if (now - this.#last > EVERY_MS + NOTED_MS) this.stalls.push({ from: this.#last, to: now })
      this.#last = now
    }, EVERY_MS)
  }

  static start(): StallWatch {
    return new StallWatch()
  }

  get longestMs(): number {
    return Math.max(0, ...this.stalls.map(({ from, to }) => to - from - EVERY_MS))
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
