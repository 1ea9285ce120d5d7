/** A map that forgets what was not used for longest when it is full. */
export class LruMap<V> {
  readonly #most: number
  readonly #entries = new Map<string, V>()

  /** @param most entries held */
  constructor(most: number) {
    this.#most = most
  }

  get(key: string): V | undefined {
    const value = this.#entries.get(key)
    if (value !== undefined) this.set(key, value)
    return value
  }

  set(key: string, value: V): void {
    this.#entries.delete(key)
    this.#entries.set(key, value)
    const [oldest] = this.#entries.keys()
    if (this.#entries.size > this.#most && oldest !== undefined) this.#entries.delete(oldest)
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }
}
