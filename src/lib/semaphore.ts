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
