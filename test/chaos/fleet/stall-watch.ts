/** How long this process itself stood still: what it saw then, it saw late. And how busy the machine was. */
import { loadavg } from 'node:os'

const EVERY_MS = 20

/** Shorter ones are everyday life. */
const NOTED_MS = 8

/** Times by `performance.now()`. */
export type Stall = { from: number; to: number }
/** Processes that ran or wanted to, on the average of the minute before. */
export type Load = { at: number; load: number }

/** What had waited for this program is taken so long after it goes on. */
const SEEN_MS = 20

export function wasSeenLate({ at }: { at: number }, stalls: readonly Stall[]): boolean {
  return stalls.some(({ from, to }) => at >= from && at <= to + SEEN_MS)
}

const LOAD_EVERY_MS = 1000

/** Processes that run or want to on a machine of two processors where nothing but such a fleet runs; with more, work takes longer. */
const USUAL_LOAD = 8

/** By how much work takes longer than usual, at the worst moment between two: 1 where it does not. */
export function busyness([from, to]: [number, number], loads: readonly Load[]): number {
  const between = loads.filter(({ at }) => at >= from && at <= to).map(({ load }) => load)
  return Math.max(1, ...between.map((load) => load / USUAL_LOAD))
}

export class StallWatch {
  readonly stalls: Stall[] = []
  readonly loads: Load[] = []
  #last = performance.now()
  readonly #timer: NodeJS.Timeout

  private constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now()
      if (now - this.#last > EVERY_MS + NOTED_MS) this.stalls.push({ from: this.#last, to: now })
      this.#last = now
      if (now - (this.loads.at(-1)?.at ?? -Infinity) >= LOAD_EVERY_MS)
        this.loads.push({ at: now, load: loadavg()[0] ?? 0 })
    }, EVERY_MS)
  }

  static start(): StallWatch {
    return new StallWatch()
  }

  get longestMs(): number {
    return Math.max(0, ...this.stalls.map(({ from, to }) => to - from - EVERY_MS))
  }

  /** Processes that ran or wanted to, on the average. */
  get load(): number {
    return this.loads.reduce((sum, { load }) => sum + load, 0) / Math.max(1, this.loads.length)
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
