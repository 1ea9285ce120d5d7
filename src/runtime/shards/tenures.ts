/**
 * For which start of a shard's work something is done. A process that stood still for long wakes up in the middle of what it
 * had begun, and renews its lease; others have had the shard meanwhile. What was begun for it before may write no more then,
 * whatever it is and however far down the decision to write was made.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export type Tenure = { isOver: boolean }

export class Tenures {
  readonly #ofShards = new Map<number, Tenure>()
  readonly #doneFor = new AsyncLocalStorage<Tenure>()

  begin(shards: readonly number[]): void {
    this.end(shards)
    for (const shard of shards) this.#ofShards.set(shard, { isOver: false })
  }

  /** Nothing of it is under way, or somebody else may have the shard. */
  end(shards: readonly number[]): void {
    for (const shard of shards) {
      const tenure = this.#ofShards.get(shard)
      if (tenure) tenure.isOver = true
      this.#ofShards.delete(shard)
    }
  }

  /** Of each shard that has one. */
  endAll(): void {
    this.end([...this.#ofShards.keys()])
  }

  /** That of the shard as it is held now; over where it is not. */
  of(shard: number): Tenure {
    return this.#ofShards.get(shard) ?? { isOver: true }
  }

  /** Whatever `act` begins may write as long as the shard is held as it is now. */
  within<T>(shard: number, act: () => T): T {
    return this.#doneFor.run(this.of(shard), act)
  }

  /** Whether what runs now may write; what is done for no shard may. */
  get mayWrite(): boolean {
    return this.#doneFor.getStore()?.isOver !== true
  }
}

/** Runs what it is given as if it was begun where this was called: what is done for several shards is no one shard's. */
export function detached(): <T>(act: () => T) => T {
  return AsyncLocalStorage.snapshot()
}
