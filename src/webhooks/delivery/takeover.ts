import { secrets } from '../../apis/core-kinds.ts'
import { deliveryObjectName } from '../../apis/ids.ts'
import { type ResourceType, SHARD_LABEL } from '../../apis/meta.ts'
import { type DeliveryOutline, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { SIGNING_KEYS_LABEL, webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { isApiError, type ListQuery, type Page, type RawObject } from '../../kube/client.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { pollUntil, sleep, withDeadline } from '../../lib/time.ts'
import { readKeys, type StoredKeys } from '../endpoints/signing-keys.ts'
import { CALM_AFTER_MS } from '../log/crash-series.ts'
import { retryUntilDurable } from './context.ts'
import type { Delivery, UnresolvedEntry } from './endpoint-queue.ts'
import type { DeliveryEngine } from './engine.ts'
import { type LogFollower, resumeEntries } from './log-follower.ts'
import { isFinal } from './plan.ts'
import { RecoveryFromObjects } from './takeover-recovery.ts'

const EVERY_MS = 1000
const AT_A_TIME = 4
/** Limit on deliveries of this replica that one round skips. */
const MAX_SKIPPED = 5000
/** Between the first checks of the same delivery. */
const ROUND_MS = 10 * 60_000

/**
 * Slowly checks the objects of deliveries that other replicas drive. One that has ended or is gone stops being pending here
 * even if no record says so: its replica may have died before it wrote the record.
 */
export class RemoteDeliverySweeper {
  readonly #engine: DeliveryEngine
  #rest: Iterator<Delivery> | undefined
  #roundAt: number

  constructor(engine: DeliveryEngine) {
    this.#engine = engine
    this.#roundAt = engine.ctx.clock.monotonic() + ROUND_MS
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.#engine.ctx.clock, EVERY_MS, signal)
      if (!signal.aborted) await Promise.all(this.#next().map((delivery) => this.#check(delivery)))
    }
  }

  #next(): Delivery[] {
    const now = this.#engine.ctx.clock.monotonic()
    if (!this.#rest && now < this.#roundAt) return []
    if (!this.#rest) this.#roundAt = now + ROUND_MS
    // The iterator follows later additions and skips what was removed.
    this.#rest ??= this.#engine.objectBacked.values()
    const chosen: Delivery[] = []
    for (let seen = 0; seen < MAX_SKIPPED && chosen.length < AT_A_TIME; seen += 1) {
      const { value, done } = this.#rest.next()
      if (done) {
        this.#rest = undefined
        break
      }
      if (value.queue.driver === 'others') chosen.push(value)
    }
    return chosen
  }

  async #check(delivery: Delivery): Promise<void> {
    const { objects, giveUp, log } = this.#engine.ctx
    try {
      const object = await objects.find(delivery)
      if (object && !isFinal(object.status?.state)) return
      // If this replica took it over meanwhile, the takeover has seen its end.
      if (delivery.queue.driver === 'others' && this.#engine.objectBacked.has(delivery))
        this.#engine.leave(delivery)
    } catch (error) {
      if (!giveUp.aborted)
        log.info('remote_delivery_check_failed', 'failed to check a delivery of another replica', { error })
    }
  }
}

/**
 * Takes over shards, and releases them: nothing is started before everything that the previous owner may have written is known.
 * README.md has the protocol.
 */

export type ShardTakeoverOptions = {
  engine: DeliveryEngine
  follower: LogFollower
  syncedVersion: () => number
  /** Called for every delivery found, of all shards the first time; `isOurs` if its shard is taken over. */
  onFound?: (outline: DeliveryOutline, isOurs: boolean) => void
}

const PAGE = 2500
const ENDPOINTS_PAGE = 500
/** Signing keys are read along with the endpoints, which are larger; a longer read means that Secrets cannot be read. */
const KEYS_MS = 15_000
/** For the release record. Without it the next owner takes over as from a replica that died. */
const RELEASE_MS = 2000

export class ShardTakeover {
  readonly #options: ShardTakeoverOptions
  /** Objects of all shards were listed: later changes are in the log. */
  #isComplete = false
  /** By shard, what distinguishes this claim from a later one. */
  readonly #claimed = new Map<number, symbol>()
  /** Claimed, and everything that the previous owner left is known. */
  readonly #adopted = new Set<number>()
  readonly #turns = new Semaphore({ atOnce: 1 })

  constructor(options: ShardTakeoverOptions) {
    this.#options = options
  }

  /**
   * One call after the other. @returns deliveries with an object and no end, and entries that continue from the log
   * @throws ApiError, Error if a retry may help, or when given up: it can be started again
   */
  async start(
    shards: ReadonlySet<number>,
    signal: AbortSignal,
  ): Promise<{ unfinished: number; resumed: number }> {
    return await this.#turns.run(async () => {
      for (const shard of shards) this.#adopted.delete(shard)
      await this.#claim(shards, signal)
      await Promise.all([this.#readEndpoints(signal), this.#readKeysInTime(signal)])
      const result = await this.#adopt(shards, signal)
      for (const shard of shards) this.#adopted.add(shard)
      void this.#endSeriesLater(shards)
      return result
    })
  }

  /** What ended the owners before has not ended this one: from then on, nothing is suspicious. */
  async #endSeriesLater(shards: ReadonlySet<number>): Promise<void> {
    const { follower, engine } = this.#options
    const { clock, outcomes, giveUp, claims } = engine.ctx
    const claimed = new Map([...shards].map((shard) => [shard, this.#claimed.get(shard)]))
    await sleep(clock, CALM_AFTER_MS, giveUp)
    const isSame = (shard: number) =>
      claimed.get(shard) !== undefined && claimed.get(shard) === this.#claimed.get(shard)
    const calm = [...shards]
      .filter((shard) => isSame(shard) && claims.endsOf(shard) > 0)
      .sort((a, b) => a - b)
    if (giveUp.aborted || calm.length === 0 || !follower.holdsClaims(new Set(calm))) return
    await outcomes.record({ kind: 'calm', shards: calm, after: follower.version }).catch(() => undefined)
  }

  /**
   * For shards that this replica had until its lease could not be renewed for a while. Endpoints may have been deleted meanwhile
   * without an acknowledgement by a controller, since none lived, and the watch may be dead.
   * @throws Error if another replica has claimed one of them since, or if that cannot be told
   */
  async confirm(shards: ReadonlySet<number>, signal: AbortSignal): Promise<void> {
    await this.#turns.run(async () => {
      this.#assertHeld(shards)
      await this.#claim(shards, signal)
      await this.#readEndpoints(signal)
      this.#assertHeld(shards)
    })
  }

  /** Resolves when the log shows that the shards are this replica's. */
  async #claim(shards: ReadonlySet<number>, signal: AbortSignal): Promise<void> {
    const { engine, follower } = this.#options
    signal.throwIfAborted()
    const { claims, outcomes, writer, clock } = engine.ctx
    const numbers = [...shards].sort((a, b) => a - b)
    const now = clock.now()
    const byEnds = Map.groupBy(numbers, (shard) => claims.endsBefore(shard, writer, now))
    // With `after`, a claim that is written late, when another replica has claimed them, is void.
    const after = follower.version
    const versions = await Promise.all(
      [...byEnds].map(([ends, part]) =>
        outcomes.record({ kind: 'claim', shards: part, after, ends }, { isUrgent: true }),
      ),
    )
    for (const shard of shards) this.#claimed.set(shard, this.#claimed.get(shard) ?? Symbol())
    await follower.seen(Math.max(...versions), signal)
    signal.throwIfAborted()
    this.#assertHeld(shards)
  }

  #assertHeld(shards: ReadonlySet<number>): void {
    if (this.#options.follower.holdsClaims(shards)) return
    throw new Error('another replica claimed a shard in the meantime')
  }

  /** Releases shards. Resolves when nothing of them is in progress and, if it is true, the log says so. */
  async end(shards: ReadonlySet<number>): Promise<void> {
    const { follower, engine } = this.#options
    const { ctx } = engine
    // Determined before: segments that arrive from here on are the next owner's.
    const known = new Set([...shards].filter((shard) => this.#isKnown(shard)))
    const areIdle = await engine.release(shards)
    const claimed = [...shards].filter((shard) => this.#claimed.delete(shard))
    for (const shard of claimed) this.#adopted.delete(shard)
    // At the end of the process, calls in progress were given up without an answer.
    if (!areIdle || ctx.giveUp.aborted) return
    const inOrder = claimed.filter((one) => known.has(one) && this.#isOurs(one))
    if (inOrder.length === 0) return
    const release = { kind: 'release', shards: inOrder, after: follower.version } as const
    const recorded = ctx.outcomes.record(release, { isUrgent: true }).catch(() => undefined)
    await Promise.race([recorded, sleep(ctx.clock, RELEASE_MS, ctx.giveUp)])
  }

  /** Whether everything that the previous owner may have left open in this shard is known: it left nothing, or all was read. */
  #isKnown(shard: number): boolean {
    const { engine, follower, syncedVersion } = this.#options
    if (follower.claims.wasReleasedCleanly(shard)) return true
    const claimed = follower.claims.since(shard)
    return this.#adopted.has(shard) && Math.max(syncedVersion(), engine.ctx.segments.lowWater) >= claimed
  }

  /** Whether all calls that this replica made for the shard were answered, or are recorded. */
  #isOurs(shard: number): boolean {
    const { follower, engine } = this.#options
    // A shard claimed by another replica since must not be released: who has not read that claim would believe the release.
    if (!follower.holdsClaims(new Set([shard]))) return false
    // Calls in progress when the Lease lapsed were given up without an answer.
    return engine.ctx.shards.epochs?.current(shard).state !== 'revoked'
  }

  /** Reads the endpoints with the status that the previous owner wrote, and learns which were deleted. */
  async #readEndpoints(signal: AbortSignal): Promise<void> {
    const { directory } = this.#options.engine.ctx
    const uids = new Set<string>()
    let version = ''
    for await (const page of this.#pages(webhookEndpoints, { limit: ENDPOINTS_PAGE }, signal)) {
      if (page.resourceVersion !== version) uids.clear()
      version = page.resourceVersion
      for (const raw of page.items) {
        uids.add(raw.metadata.uid ?? '')
        const { data } = webhookEndpoint.safeParse(raw)
        if (data) directory.applyRead(data)
      }
    }
    directory.applyList(uids, Number(version))
  }

  /** The watch may be behind, and a key that the previous owner expired must not sign here. Without Secrets it has to do. */
  async #readKeysInTime(signal: AbortSignal): Promise<void> {
    const { clock, log, giveUp } = this.#options.engine.ctx
    await withDeadline(clock, KEYS_MS, async (late) => {
      try {
        await this.#readKeys(AbortSignal.any([signal, late]))
      } catch (error) {
        signal.throwIfAborted()
        if (giveUp.aborted || !late.aborted) throw error
        log.warn('signing_secrets_unreadable', 'failed to read signing secrets; using those from the watch', {
          error,
        })
      }
    })
  }

  async #readKeys(signal: AbortSignal): Promise<void> {
    const { directory, namespace } = this.#options.engine.ctx
    const labelSelector = `${SIGNING_KEYS_LABEL}=true`
    const query = { namespace, labelSelector, limit: ENDPOINTS_PAGE }
    for await (const page of this.#pages(secrets, query, signal))
      for (const raw of page.items) {
        const stored = keysIn(raw)
        if (stored) directory.applyKeys(stored.namespace, stored.endpoint, stored.keys)
      }
  }

  async #adopt(shards: ReadonlySet<number>, signal: AbortSignal) {
    const { engine, follower, onFound, syncedVersion } = this.#options
    const { clock, directory, segments } = engine.ctx
    const unresolved = new Map<string, UnresolvedEntry>()
    for (const entry of follower.openEntriesOf(shards)) unresolved.set(keyOf(entry), entry)
    const queues = engine.queues.acquire(shards)
    for (const queue of queues) if (!directory.find(queue.endpoint)) engine.verifyEndpoint(queue)
    const objects = new RecoveryFromObjects({ engine, follower, shards, unresolved, queues })
    const query = this.#isComplete ? { labelSelector: `${SHARD_LABEL} in (${[...shards].join()})` } : {}
    if (!this.#isComplete) follower.endsDuringList = new Set()
    try {
      for await (const page of this.#pages(webhookDeliveries, { limit: PAGE, ...query }, signal)) {
        for (const raw of page.items) {
          const outline = objects.addObject(raw)
          if (outline) onFound?.(outline, shards.has(shardOf(outline.spec.endpointUid)))
        }
      }
    } finally {
      follower.endsDuringList = undefined
    }
    objects.recordEnds()
    this.#isComplete = true
    follower.recordedEnds = undefined
    // The watch of segments may be behind what the previous owner acted on.
    const isRead = (version: number) => Math.max(syncedVersion(), segments.lowWater) >= version
    await pollUntil(clock, () => isRead(objects.newest), signal)
    if (!isRead(objects.newest)) signal.throwIfAborted()
    await objects.lookUpMissing(signal)
    await objects.resumeSuspects(isRead, signal)
    const resumed = await resumeEntries(engine, [...unresolved.values()])
    return { unfinished: objects.unfinished, resumed }
  }

  /** Pages of a consistent list, from the first again if it took longer than the server keeps old versions. */
  async *#pages(type: ResourceType, query: ListQuery, signal: AbortSignal): AsyncGenerator<Page> {
    const { ctx: engineContext } = this.#options.engine
    const ctx = { ...engineContext, giveUp: AbortSignal.any([engineContext.giveUp, signal]) }
    // Undefined if the continuation has expired.
    const ask = (from?: string) =>
      retryUntilDurable(ctx, `list ${type.plural}`, async (): Promise<Page | undefined> => {
        signal.throwIfAborted()
        try {
          return await ctx.resources.list(type, query, from)
        } catch (error) {
          if (isApiError(error, 'Gone')) return undefined
          throw error
        }
      })
    let asked = ask()
    for (;;) {
      const page = await asked
      // The API server prepares the next page while this one is processed.
      if (page === undefined || page.continue !== undefined) asked = ask(page?.continue)
      asked.catch(() => undefined)
      if (page) yield page
      if (page && page.continue === undefined) return
    }
  }
}

function keysIn(raw: RawObject): StoredKeys | undefined {
  try {
    return readKeys(raw)
  } catch {
    return undefined
  }
}

function keyOf({ open: { entry } }: UnresolvedEntry): string {
  return `${entry.event.namespace}/${deliveryObjectName(entry.event.id, entry.endpoint.uid)}`
}
