/**
 * For which start of a shard's work something is done. A process that stood still for long wakes up in the middle of what it
 * had begun, and renews its lease; others have had the shard meanwhile. What was begun for it before may write no more then,
 * whatever it is and however far down the decision to write was made.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export type OwnershipEpoch = { isRevoked: boolean }

export class OwnershipEpochs {
  readonly #byShard = new Map<number, OwnershipEpoch>()
  readonly #runningEpoch = new AsyncLocalStorage<OwnershipEpoch>()

  begin(shards: readonly number[]): void {
    this.end(shards)
    for (const shard of shards) this.#byShard.set(shard, { isRevoked: false })
  }

  /** Nothing of it is under way, or somebody else may have the shard. */
  end(shards: readonly number[]): void {
    for (const shard of shards) {
      const tenure = this.#byShard.get(shard)
      if (tenure) tenure.isRevoked = true
      this.#byShard.delete(shard)
    }
  }

  /** Of each shard that has one. */
  endAll(): void {
    this.end([...this.#byShard.keys()])
  }

  /** That of the shard as it is held now; over where it is not. */
  current(shard: number): OwnershipEpoch {
    return this.#byShard.get(shard) ?? { isRevoked: true }
  }

  /** Whatever `act` begins may write as long as the shard is held as it is now. */
  runWithin<T>(shard: number, act: () => T): T {
    return this.#runningEpoch.run(this.current(shard), act)
  }

  /** Whether what runs now may write; what is done for no shard may. */
  get mayWrite(): boolean {
    return this.#runningEpoch.getStore()?.isRevoked !== true
  }
}

/** Runs what it is given as if it was begun where this was called: what is done for several shards is no one shard's. */
export function withoutOwnership(): <T>(act: () => T) => T {
  return AsyncLocalStorage.snapshot()
}
