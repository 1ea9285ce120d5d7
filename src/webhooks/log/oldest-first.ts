/** What ended at some time, and may have been taken out of this queue and others. */
export type Ended = { readonly completedAt: number; taken: boolean }

/** Ends are told nearly in their order: so far back a place is looked for, beyond that all are sorted. */
const NEAR = 64
/** Fewer dead entries than this are not worth a compaction. */
const SLACK = 64

/**
 * A queue by the time of the end, the oldest in front. In front and at the back it costs O(1), amortised; what is
 * taken elsewhere stays as a dead entry until that pays.
 */
export class OldestFirst<T extends Ended> {
  #items: T[] = []
  #start = 0
  #size = 0
  #sorted = true

  /** Entries that were not taken. */
  get size(): number {
    return this.#size
  }

  add(item: T): void {
    this.#size += 1
    const place = this.#sorted ? this.#placeOf(item) : undefined
    if (place === undefined) this.#sorted = false
    if (place === undefined || place === this.#items.length) this.#items.push(item)
    else this.#items.splice(place, 0, item)
  }

  first(): T | undefined {
    if (!this.#sorted) this.#sort()
    while (this.#items[this.#start]?.taken) this.#start += 1
    return this.#items[this.#start]
  }

  /** An entry of this queue was marked as taken. */
  markTaken(): void {
    this.#size -= 1
    if (this.#items.length > 2 * this.#size + SLACK) this.#compact()
  }

  *values(): IterableIterator<T> {
    for (let at = this.#start; at < this.#items.length; at += 1) {
      const item = this.#items[at]
      if (item && !item.taken) yield item
    }
  }

  /** Undefined when it is not near. */
  #placeOf(item: T): number | undefined {
    let place = this.#items.length
    const nearest = Math.max(this.#start, place - NEAR)
    while (place > this.#start) {
      const before = this.#items[place - 1]
      if (!before || before.completedAt <= item.completedAt) return place
      if (place === nearest) return undefined
      place -= 1
    }
    return place
  }

  #sort(): void {
    this.#compact()
    this.#items.sort((a, b) => a.completedAt - b.completedAt)
    this.#sorted = true
  }

  #compact(): void {
    this.#items = [...this.values()]
    this.#start = 0
  }
}
