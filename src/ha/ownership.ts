import { AsyncLocalStorage } from 'node:async_hooks'
import { ApiError, type ResourceReader, type ResourceWriter, type WatchSource } from '../kube/client.ts'
import { noRequeue, type ReconcileResult, type Reconciler } from '../kube/reconcile-loop.ts'
import type { Clock } from '../lib/clock.ts'
import { sleep } from '../lib/sleep.ts'

/**
 * For which start of a shard's work something is done. A process that stood still for long wakes up in the middle of what it
 * had begun, and renews its lease; others have had the shard meanwhile. What was begun for it before may write no more then,
 * whatever it is and however far down the decision to write was made.
 */

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
      const epoch = this.#byShard.get(shard)
      if (epoch) epoch.isRevoked = true
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

/** Which shards this replica may work on right now. It is asked each time, since shards are won and lost. */
export interface ShardOwnership {
  /** It may send. @param shard 0 to 255 */
  owns(shard: number): boolean
  /** Since when shards are held; absent: there is nobody else. */
  readonly epochs?: Pick<OwnershipEpochs, 'runWithin' | 'mayWrite' | 'current'>
}

/** Whatever `act` begins may write as long as the shard is held as it is now. */
export function withOwnership<T>({ epochs }: ShardOwnership, shard: number, act: () => T): T {
  return epochs ? epochs.runWithin(shard, act) : act()
}

type Api = ResourceReader & ResourceWriter & WatchSource

/**
 * The same API server, which is not written to while others may think that this replica is gone: a write then fails as
 * `Unavailable`, before it is sent.
 */
export function withFencing(api: Api, mayAct: () => boolean): Api {
  const guard = async <T>(write: () => Promise<T>): Promise<T> => {
    if (mayAct()) return await write()
    throw new ApiError(
      'Unavailable',
      'this replica could not renew its Lease, and writes nothing until it has',
    )
  }
  return {
    get: (type, ref) => api.get(type, ref),
    list: (type, query, from) => api.list(type, query, from),
    watch: (type, query, version, signal) => api.watch(type, query, version, signal),
    create: (type, object, how) => guard(() => api.create(type, object, how)),
    patch: (type, ref, patch, how) => guard(() => api.patch(type, ref, patch, how)),
    delete: (type, ref, precondition, how) => guard(() => api.delete(type, ref, precondition, how)),
  }
}

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
