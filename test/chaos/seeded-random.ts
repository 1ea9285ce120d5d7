/** Seeded random numbers: the faults of a run can be repeated. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Uniform in [0, 1). Mulberry32. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  between(min: number, max: number): number {
    return min + this.fraction() * (max - min)
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  /** @param from at least one */
  pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.fraction() * from.length)] as T
  }

  /** Another generator, whose numbers do not depend on how many this one gives. */
  fork(): SeededRandom {
    return new SeededRandom(Math.floor(this.fraction() * 2 ** 32))
  }
}
