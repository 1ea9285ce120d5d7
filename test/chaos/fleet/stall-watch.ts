/** Records when this process itself stalled, so that it noticed events late, and how busy the machine was. */
import { loadavg } from 'node:os'

const EVERY_MS = 20

/** Shorter stalls are normal. */
const NOTED_MS = 8

/** Times by `performance.now()`. */
export type Stall = { from: number; to: number }
/** Load average of the previous minute. */
export type Load = { at: number; load: number }

/** Time after a stall until this program has processed its backlog. */
const SEEN_MS = 20

export function wasSeenLate({ at }: { at: number }, stalls: readonly Stall[]): boolean {
  return stalls.some(({ from, to }) => at >= from && at <= to + SEEN_MS)
}

const LOAD_EVERY_MS = 1000

/** Load of a machine with two processors that runs only such a fleet; with more, work takes longer. */
const USUAL_LOAD = 8

/** How much longer work takes than usual, at the worst moment between two: 1 if it does not. */
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

  /** Mean load. */
  get load(): number {
    return this.loads.reduce((sum, { load }) => sum + load, 0) / Math.max(1, this.loads.length)
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
