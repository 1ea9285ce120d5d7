/** One at a time for each key, in the order of the calls; different keys do not wait for each other. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<unknown>>()

  /** Keys that something runs or waits for. */
  get size(): number {
    return this.#tails.size
  }

  /** What `work` gives; whether an earlier one failed does not matter. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve()
    const result = before.then(work)
    const tail = result
      .catch(() => undefined)
      .then(() => {
        if (this.#tails.get(key) === tail) this.#tails.delete(key)
      })
    this.#tails.set(key, tail)
    return result
  }
}

/** Places before the first item that may stay unused. */
const MAX_SLACK = 1024

/** A first-in-first-out queue with cheap ends (an array's `shift` copies). What was taken out is not held. */
export class Fifo<T> {
  #items: (T | undefined)[] = []
  #start = 0

  get size(): number {
    return this.#items.length - this.#start
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined
    const item = this.#items[this.#start]
    this.#items[this.#start] = undefined
    this.#start += 1
    if (this.size === 0) this.clear()
    else if (this.#start > MAX_SLACK && this.#start * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#start)
      this.#start = 0
    }
    return item
  }

  clear(): void {
    this.#items = []
    this.#start = 0
  }
}

/** So many pieces of work at a time; the rest waits in order, urgent ones before the others. */

export class PrioritySemaphore {
  readonly #count: number
  readonly #urgent = new Fifo<() => void>()
  readonly #others = new Fifo<() => void>()
  #taken = 0

  constructor(count: number) {
    this.#count = count
  }

  /** What `work` gives, once it has had its turn. */
  async run<T>(work: () => Promise<T>, how: { urgent: boolean }): Promise<T> {
    if (this.#taken < this.#count) this.#taken += 1
    else await new Promise<void>((turn) => (how.urgent ? this.#urgent : this.#others).push(turn))
    try {
      return await work()
    } finally {
      const next = this.#urgent.shift() ?? this.#others.shift()
      // The slot passes from hand to hand.
      if (next) next()
      else this.#taken -= 1
    }
  }
}
