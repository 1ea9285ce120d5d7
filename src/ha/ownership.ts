/**
 * Fencing: work that was started for a shard writes nothing once another replica may have owned the shard. README.md explains why
 * Leases alone do not suffice.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { ApiError, type ResourceReader, type ResourceWriter, type WatchSource } from '../kube/client.ts'
import { noRequeue, type ReconcileResult, type Reconciler } from '../kube/reconcile-loop.ts'
import { type Clock, sleep } from '../lib/time.ts'

/**
 * One uninterrupted ownership of a shard. `revoked`: another replica may have owned the shard since. `doubtful`: the log has to tell
 * whether one has.
 */
export type OwnershipEpoch = { state: 'valid' | 'doubtful' | 'revoked' }

/**
 * The ownership epochs of all shards. A process that was suspended resumes in the middle of its work and renews its Lease, although
 * another replica has owned the shard since. Async work carries the epoch in which it started and may not write once that is revoked.
 */
export class OwnershipEpochs {
  readonly #byShard = new Map<number, OwnershipEpoch>()
  readonly #runningEpoch = new AsyncLocalStorage<OwnershipEpoch>()

  begin(shards: readonly number[]): void {
    this.end(shards)
    for (const shard of shards) this.#byShard.set(shard, { state: 'valid' })
  }

  /** Writes wait until it is known whether another replica has taken the shards over. */
  doubt(shards: readonly number[], isDoubtful: boolean): void {
    for (const shard of shards) {
      const epoch = this.#byShard.get(shard)
      if (epoch) epoch.state = isDoubtful ? 'doubtful' : 'valid'
    }
  }

  /** No work is in progress, or another replica may own the shard. */
  end(shards: readonly number[]): void {
    for (const shard of shards) {
      const epoch = this.#byShard.get(shard)
      if (epoch) epoch.state = 'revoked'
      this.#byShard.delete(shard)
    }
  }

  /** Revoked already if the shard is not owned. */
  current(shard: number): OwnershipEpoch {
    return this.#byShard.get(shard) ?? { state: 'revoked' }
  }

  /** Work that `act` starts may write as long as the shard stays owned without a break. */
  runWithin<T>(shard: number, act: () => T): T {
    return this.#runningEpoch.run(this.current(shard), act)
  }

  /** Whether the code that runs now may write. Code that runs for no shard may. */
  get mayWrite(): boolean {
    const epoch = this.#runningEpoch.getStore()
    return epoch === undefined || epoch.state === 'valid'
  }

  /** Whether the code that runs now may never write again. */
  get isRevoked(): boolean {
    return this.#runningEpoch.getStore()?.state === 'revoked'
  }
}

/**
 * @returns a function that runs `act` later, as if it were started right here: in the epoch of this code, for work that waits for its turn,
 * or outside of any, for work on several shards
 */
export function ownershipHere(): <T>(act: () => T) => T {
  return AsyncLocalStorage.snapshot()
}

/** Which shards this replica may work on now. Ask each time, since shards come and go. */
export interface ShardOwnership {
  /** @param shard 0 to 255 */
  owns(shard: number): boolean
  /** No earlier owner can have work of the shard in progress. Absent if there is only one replica. */
  isAlone?(shard: number): boolean
  /** Absent if there is only one replica. */
  readonly epochs?: Pick<OwnershipEpochs, 'runWithin' | 'mayWrite' | 'isRevoked' | 'current'>
}

/** Whether this replica may do what must not overlap with work of an earlier owner: keep an order, or acknowledge a change. */
export function ownsAlone(ownership: ShardOwnership, shard: number): boolean {
  return ownership.owns(shard) && ownership.isAlone?.(shard) !== false
}

/** Work that `act` starts may write as long as the shard stays owned without a break. */
export function withOwnership<T>({ epochs }: ShardOwnership, shard: number, act: () => T): T {
  return epochs ? epochs.runWithin(shard, act) : act()
}

type Api = ResourceReader & ResourceWriter & WatchSource

/** The same API server, but a write fails as `Unavailable` before it is sent while other replicas may consider this one dead. */
export function withFencing(api: Api, mayAct: () => boolean): Api {
  const guard = async <T>(write: () => Promise<T>): Promise<T> => {
    if (mayAct()) return await write()
    throw new ApiError(
      'Unavailable',
      'this replica failed to renew its Lease and does not write until it is renewed',
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
  /** Undefined when the object is unknown: then there is nothing to do. */
  shardOf: (key: string) => number | undefined
  clock: Clock
  /** `idle` waits no longer than this for a pass. After that the shard goes to another replica, and fencing stops the pass from writing. */
  longestMs: number
}

/**
 * Reconciles objects of the shards that this replica owns alone: what a pass acknowledges is in effect. When a shard becomes that, its
 * keys must be added to the loop.
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
    if (shard === undefined || !ownsAlone(ownership, shard)) return noRequeue()
    const pass = withOwnership(ownership, shard, () => reconciler.reconcile(key, signal))
    this.#passes.set(pass, shard)
    try {
      return await pass
    } finally {
      this.#passes.delete(pass)
    }
  }

  /** Resolves when the passes of the shard that run now have ended, or have taken too long. */
  async idle(shard: number): Promise<void> {
    const { clock, longestMs } = this.#options
    const passes = [...this.#passes].flatMap(([pass, of]) => (of === shard ? [pass] : []))
    if (passes.length === 0) return
    const areOver = new AbortController()
    void Promise.allSettled(passes).then(() => areOver.abort())
    await sleep(clock, longestMs, areOver.signal)
  }
}
