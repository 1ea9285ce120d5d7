import { Problem } from './problems.ts'

export type SemaphoreLimits = {
  atOnce: number
  /** How many may wait for their turn; beyond them one is refused. */
  waiting: number
}

/** Bounds how much of something is under way at once; the rest waits, the first first. */
export class Semaphore {
  readonly #limits: SemaphoreLimits
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(limits: SemaphoreLimits) {
    this.#limits = limits
  }

  get isIdle(): boolean {
    return this.#running === 0
  }

  /** @throws Problem overloaded, and whatever `work` throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#limits.atOnce) this.#running += 1
    else await this.#turn()
    try {
      return await work()
    } finally {
      this.#next()
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.length >= this.#limits.waiting) {
      throw new Problem('overloaded', { headers: { 'retry-after': '1' } })
    }
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Whoever is next takes over the place. */
  #next(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#running -= 1
  }
}

/** Turns for each name, so that one that asks for much waits for itself alone. */
export class KeyedSemaphore {
  readonly #limits: SemaphoreLimits
  readonly #turns = new Map<string, Semaphore>()

  constructor(limits: SemaphoreLimits) {
    this.#limits = limits
  }

  /** @throws Problem overloaded, and whatever `work` throws */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const turns = this.#turns.get(name) ?? new Semaphore(this.#limits)
    this.#turns.set(name, turns)
    try {
      return await turns.run(work)
    } finally {
      if (turns.isIdle) this.#turns.delete(name)
    }
  }
}
