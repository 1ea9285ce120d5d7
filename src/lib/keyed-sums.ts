/** Sums by key, and their total. A key whose sum is zero takes no memory. */
export class KeyedSums {
  readonly #sums = new Map<string, number>()
  #total = 0

  get total(): number {
    return this.#total
  }

  of(key: string): number {
    return this.#sums.get(key) ?? 0
  }

  add(key: string, by: number): void {
    this.#total += by
    const sum = this.of(key) + by
    if (sum === 0) this.#sums.delete(key)
    else this.#sums.set(key, sum)
  }
}
