/** The newest of what was added, up to so many. */
export class RecentSet {
  readonly #values = new Set<string>()
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  has(value: string): boolean {
    return this.#values.has(value)
  }

  add(value: string): void {
    this.#values.delete(value)
    this.#values.add(value)
    const [oldest] = this.#values
    if (this.#values.size > this.#max && oldest !== undefined) this.#values.delete(oldest)
  }

  delete(value: string): void {
    this.#values.delete(value)
  }
}
