/** Takes records of outcomes into the lines as a reflector reads them, each segment of them once, and keeps none. */
import type { ObjectIdentity, Store } from '../../kube/object-store.ts'
import type { DeliveryLines } from './delivery-index-delivery-lines.ts'
import type { OutcomeBatch } from './delivery-lines.ts'

export class OutcomeStore implements Store<OutcomeBatch> {
  readonly size = 0
  readonly #lines: DeliveryLines
  readonly #onSetBack: () => void
  /** Everything up to this version was taken in. */
  #floor = 0
  /** Versions above it that were: a list that broke off is read again. */
  #taken = new Set<number>()

  /** @param onSetBack the API server's store is an older one: nothing that was read of it holds any more */
  constructor(lines: DeliveryLines, onSetBack: () => void) {
    this.#lines = lines
    this.#onSetBack = onSetBack
  }

  get(): undefined {
    return undefined
  }

  *values(): IterableIterator<OutcomeBatch> {}

  isNews({ version }: ObjectIdentity): boolean {
    return version > this.#floor && !this.#taken.has(version)
  }

  apply({ version }: ObjectIdentity, outcomes: OutcomeBatch): void {
    this.#taken.add(version)
    this.#lines.outcomes(outcomes)
  }

  /** What it told stays told: it goes only when nothing is left that it speaks of. */
  delete(): void {}

  beginList(): void {}

  endList(listVersion: number): Iterable<void> {
    this.seenUpTo(listVersion)
    return []
  }

  abandonList(): void {}

  seenUpTo(version: number): void {
    this.#floor = Math.max(this.#floor, version)
    if (this.#taken.size > 0) this.#taken = new Set()
  }

  age(): void {
    this.#onSetBack()
  }
}
