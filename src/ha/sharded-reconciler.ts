import { noRequeue, type ReconcileResult, type Reconciler } from '../kube/reconcile-loop.ts'
import type { Clock } from '../lib/ports-clock.ts'
import { sleep } from '../lib/sleep.ts'
import { type ShardOwnership, withOwnership } from './shards-ownership.ts'

export type ShardedReconcilerOptions = {
  reconciler: Reconciler
  ownership: ShardOwnership
  /** Undefined when the object is not known: then there is nothing to do. */
  shardOf: (key: string) => number | undefined
  clock: Clock
  /** A pass that does not end is not waited for any longer: its shard is another's then, and it writes nothing more. */
  longestMs: number
}

/**
 * A reconciler that passes over objects of this replica's shards alone. Whoever gains a shard adds the keys of what
 * belongs to it.
 */
export class ShardedReconciler implements Reconciler {
  readonly #options: ShardedReconcilerOptions
  readonly #passes = new Map<Promise<ReconcileResult>, number>()

  constructor(options: ShardedReconcilerOptions) {
    this.#options = options
  }

  async reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { reconciler, ownership, shardOf } = this.#options
    const shard = shardOf(key)
    if (shard === undefined || !ownership.owns(shard)) return noRequeue()
    const pass = withOwnership(ownership, shard, () => reconciler.reconcile(key, signal))
    this.#passes.set(pass, shard)
    try {
      return await pass
    } finally {
      this.#passes.delete(pass)
    }
  }

  /** Resolves when no pass over anything of the shard is under way that was when it was called, or has been for too long. */
  async idle(shard: number): Promise<void> {
    const { clock, longestMs } = this.#options
    const passes = [...this.#passes].flatMap(([pass, of]) => (of === shard ? [pass] : []))
    if (passes.length === 0) return
    const areOver = new AbortController()
    void Promise.allSettled(passes).then(() => areOver.abort())
    await sleep(clock, longestMs, areOver.signal)
  }
}
