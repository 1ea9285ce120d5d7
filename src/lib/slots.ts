/** So many pieces of work at a time; the rest waits in order, urgent ones before the others. */
import { Fifo } from './semaphore.ts'

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
