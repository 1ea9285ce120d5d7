import { messageId } from '../../apis/ids.ts'
import type { CancelReason } from '../../apis/webhook-delivery.ts'
import { ownershipHere, withOwnership } from '../../ha/ownership.ts'
import { ApiError } from '../../kube/client.ts'
import { FairQueue, SharedCapacity } from '../../lib/fair-queue.ts'
import type { FinishedState } from '../../lib/metrics.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { withPeriod } from '../../lib/text.ts'
import { exponentialMs } from '../../lib/time.ts'
import { NO_RECORDS } from '../log/fold.ts'
import { rejectedTooLong } from '../log/retention-plan.ts'
import {
  ATTEMPT_DEADLINE_MS,
  type EngineContext,
  hasLostShard,
  retryUntilDurable,
  warnOnEndpoint,
} from './context.ts'
import { type Delivery, IN_OBJECT, type InLog, type ObjectState, type OpenSegment } from './endpoint-queue.ts'
import type { StoreResult } from './objects.ts'
import { isFinal } from './plan.ts'

/**
 * Promotion: gives an entry of the log its WebhookDelivery, after its first outcome or two seconds without one. A `moved` record
 * then closes the entry; until it is durable everything here may be repeated.
 */

/** The API server gives up a request after a minute, answered or not. */
const MAY_COME_MS = 65_000

/**
 * Creates the object and closes the entry; tries until then. A second call for the same entry waits for the first.
 * @throws Error if the process ends before, or the shard is lost
 */
export async function promoteToObject(ctx: EngineContext, delivery: Delivery, storage: InLog): Promise<void> {
  const create = () => retryUntilDurable(ctx, 'create WebhookDelivery', () => store(ctx, delivery, storage))
  await promoteWith(ctx, delivery, storage, create)
}

/** @param create makes the object @throws what `create` throws; the entry is then as it was before */
async function promoteWith(
  ctx: EngineContext,
  delivery: Delivery,
  storage: InLog,
  create: () => Promise<StoreResult | undefined>,
): Promise<void> {
  while (storage.promotion) await storage.promotion
  if (delivery.storage !== storage) return
  const promotion = create().then((result) => afterCreation(ctx, delivery, storage, result))
  storage.promotion = promotion.catch(() => undefined)
  try {
    await promotion
  } finally {
    storage.promotion = undefined
  }
}

/**
 * Call before the object of an entry without an outcome is created. A replica that takes over an entry without records can rely on this:
 * no earlier owner has a call in progress that creates its object.
 */
export async function recordCreation(
  { outcomes }: EngineContext,
  delivery: Delivery,
  { objectMayExist, segment }: InLog,
): Promise<void> {
  const isRecorded = objectMayExist || segment.open.get(delivery.index)?.state !== NO_RECORDS
  if (!isRecorded) await outcomes.record({ kind: 'creating', position: delivery })
}

/** Undefined if another replica closed the entry: the end of an object created now would never be shown. */
async function store(
  ctx: EngineContext,
  delivery: Delivery,
  storage: InLog,
): Promise<StoreResult | undefined> {
  if (!storage.segment.open.has(delivery.index)) return undefined
  const result = await ctx.objects.store(delivery, storage, storage.status)
  // Keeps the entry open: an object that came after it was closed would never show its end.
  if (result.kind === 'refused' && isFinal(storage.status?.state) && mayCome(ctx, storage))
    throw new ApiError('Unavailable', 'an earlier call without a response may still create the object')
  return result
}

/** Whether an earlier call that got no answer may still create the object. */
function mayCome({ clock }: EngineContext, { objectMayExist, unansweredAt = 0 }: InLog): boolean {
  return objectMayExist === true && clock.monotonic() - unansweredAt < MAY_COME_MS
}

async function afterCreation(
  ctx: EngineContext,
  delivery: Delivery,
  storage: InLog,
  result: StoreResult | undefined,
): Promise<void> {
  const end = endOf(storage)
  if (!result) {
    if (end) endEntry(ctx, delivery, storage, end)
  } else if (result.kind === 'stored') {
    await ctx.outcomes.record({ kind: 'moved', position: delivery })
    showInObject(ctx, delivery, storage, result.object)
  } else if (end) {
    // Its end is durable, even if no object will show it.
    if (result.kind === 'refused') warnOfRefusedObject(ctx, delivery, result.message)
    await ctx.outcomes.record({ kind: 'moved', position: delivery })
    endEntry(ctx, delivery, storage, end)
  } else if (result.kind === 'namespaceGone') await cancelEntry(ctx, delivery, storage, 'NamespaceGone')
  else if (result.kind === 'payloadLost') await cancelEntry(ctx, delivery, storage, 'PayloadLost')
  else await keepInLog(ctx, delivery, storage, result.message)
}

function endOf({ status }: InLog): FinishedState | undefined {
  const state = status?.state
  return isFinal(state) ? state : undefined
}

function showInObject(ctx: EngineContext, delivery: Delivery, storage: InLog, object: ObjectState): void {
  if (delivery.storage !== storage) return
  const end = endOf(storage)
  delivery.storage = IN_OBJECT
  // The attempt in progress then writes its outcome without reading the object.
  if (delivery.stage === 'sending') delivery.created = object
  if (end) ctx.engine.finish(delivery, end, true)
  else ctx.engine.remoteOutcomes.markPromoted(delivery)
}

/** Quota or policy: the entry goes on from the log as long as the log can keep it. */
async function keepInLog(
  ctx: EngineContext,
  delivery: Delivery,
  storage: InLog,
  message: string,
): Promise<void> {
  const { ages, engine, segments, keptInLog } = ctx
  const { queue } = delivery
  const now = ages.now()
  let { rejection } = storage
  if (!rejection) {
    rejection = { since: now, message }
    const isFirst = queue.rejection === undefined
    queue.markRejected(delivery, storage, rejection)
    warnOfRefusedObject(ctx, delivery, message)
    if (isFirst) engine.rejected(queue.endpoint)
  }
  // The attempt may succeed.
  if (delivery.stage === 'sending' || mayCome(ctx, storage)) return
  const waits = { rejectedSince: rejection.since, acceptedAt: delivery.acceptedAt }
  if (rejectedTooLong(waits, segments.after(storage.segment), keptInLog, now))
    await cancelEntry(ctx, delivery, storage, 'CannotStore')
}

export function warnOfRefusedObject(ctx: EngineContext, { name, queue }: Delivery, message: string): void {
  const cause = withPeriod(message)
  warnOnEndpoint(
    ctx,
    queue.endpoint,
    'CannotStoreDelivery',
    `Davit cannot create a WebhookDelivery: ${cause}`,
  )
  ctx.log.warn('delivery_object_rejected', 'API server rejected a WebhookDelivery', {
    delivery: messageId(name),
    message,
  })
}

export async function cancelEntry(
  ctx: EngineContext,
  delivery: Delivery,
  storage: InLog,
  reason: CancelReason,
): Promise<void> {
  await ctx.outcomes.record({ kind: 'canceled', position: delivery, reason })
  endEntry(ctx, delivery, storage, 'canceled')
}

/** Finishes an entry whose end is durable and that no object shows. */
export function endEntry(ctx: EngineContext, delivery: Delivery, storage: InLog, state: FinishedState): void {
  if (delivery.storage !== storage) return
  delivery.storage = IN_OBJECT
  ctx.engine.finish(delivery, state, false)
}

/** Whether the entry is promoted here. One with an outcome promotes itself, unless its object is rejected and its next attempt is not due. */
function isOwedObject({ stage }: Delivery, { status, rejection }: InLog): boolean {
  return !status || (rejection !== undefined && (stage === 'waiting' || stage === 'queued'))
}

/** Calls to create an object. */
const MAX_CREATING = 16
/** These, and those that wait until a record of theirs is written. */
const MAX_OPEN = 128
const RETRIES = { firstMs: 2000, longestMs: 120_000 }
const LOGGED_FROM = 3

/**
 * Promotes entries a few at a time, in turns by organization, so that a large backlog does not hold up endpoints that make progress.
 * An entry whose object cannot be created gives its place back: `PromotionScheduler` adds it again.
 */
export class PromotionQueue {
  readonly #ctx: EngineContext
  readonly #queue = new FairQueue<Delivery>()
  readonly #queued = new Set<Delivery>()
  readonly #retries = new WeakMap<InLog, { dueAt: number; failures: number }>()
  readonly #withoutOwnership = ownershipHere()
  readonly #creating = new Semaphore({ atOnce: MAX_CREATING, reserves: true })
  readonly #open = new SharedCapacity(MAX_OPEN)

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  add(delivery: Delivery, storage: InLog): void {
    const retry = this.#retries.get(storage)
    if (this.#queued.has(delivery) || (retry && retry.dueAt > this.#ctx.clock.monotonic())) return
    this.#queued.add(delivery)
    this.#queue.push(delivery.queue.endpoint.namespace, delivery)
    this.#pump()
  }

  #pump(): void {
    const { giveUp, shards, engine } = this.#ctx
    while (!giveUp.aborted) {
      const delivery = this.#queue.take((organization) => this.#open.hasRoom(organization))
      if (!delivery) return
      const { namespace } = delivery.queue.endpoint
      this.#open.take(namespace, 1)
      const promote = () => this.#promote(delivery)
      const promoted = withOwnership(shards, delivery.queue.shard, promote).finally(() => {
        this.#queued.delete(delivery)
        this.#open.give(namespace, 1)
        // The next one may be of another shard.
        this.#withoutOwnership(() => this.#pump())
      })
      engine.runInBackground(promoted, delivery.queue)
    }
  }

  async #promote(delivery: Delivery): Promise<void> {
    const { storage } = delivery
    if (storage.kind !== 'log' || !this.#isWanted(delivery, storage)) return
    let failure: unknown
    try {
      await recordCreation(this.#ctx, delivery, storage)
      await this.#create(delivery, storage)
    } catch (error) {
      failure = error
    }
    if (this.#isWanted(delivery, storage)) this.#retryLater(storage, failure)
  }

  #retryLater(storage: InLog, failure: unknown): void {
    const { giveUp, clock, log } = this.#ctx
    const failures = (this.#retries.get(storage)?.failures ?? 0) + 1
    this.#retries.set(storage, { dueAt: clock.monotonic() + exponentialMs(failures, RETRIES), failures })
    // The first failures while an API server restarts are not worth a log line.
    if (failure === undefined || failures < LOGGED_FROM || giveUp.aborted || hasLostShard(this.#ctx)) return
    log.warn('delivery_object_failed', 'failed to create a WebhookDelivery; retrying', { error: failure })
  }

  #isWanted(delivery: Delivery, storage: InLog): boolean {
    const { queue } = delivery
    if (delivery.storage !== storage || queue.closed || !isOwedObject(delivery, storage)) return false
    return this.#ctx.shards.owns(queue.shard)
  }

  /** Holds its place until the object exists: the next can be created while the record of that is written. */
  async #create(delivery: Delivery, storage: InLog): Promise<void> {
    const { promise: created, resolve: givePlaceBack } = Promise.withResolvers<void>()
    const create = () => store(this.#ctx, delivery, storage).finally(givePlaceBack)
    let promoted = Promise.resolve()
    const untilCreated = async () => {
      // An attempt may have ended while it waited for its place, and from then on it decides whether there is an object.
      if (!this.#isWanted(delivery, storage)) return
      promoted = promoteWith(this.#ctx, delivery, storage, create)
      await Promise.race([created, promoted.catch(() => undefined)])
    }
    await this.#creating.run(untilCreated, { group: delivery.queue.endpoint.namespace })
    await promoted
  }
}

/** Most segments close within seconds. */
const PROMOTED_AFTER_MS = 2000
/** Segments that come within this time share a timer; one for each would wake a replica as often as the log does. */
const BATCH_MS = 250
/**
 * A busy queue that makes progress keeps its entries in the log for longer: an object for each would slow it and all others down. It makes
 * progress if any attempt succeeded within the time that one may take, since a receiver may need nearly all of it for every response.
 * Counted from when this replica has them: after a crash, all that it has to catch up with is old.
 */
const PROGRESS_MS = ATTEMPT_DEADLINE_MS
const MAX_IN_LOG_MS = 120_000

/** Promotes entries that have had no outcome for a while (held, waiting in an ordered queue, or hanging), and those whose object is rejected. */
export class PromotionScheduler {
  readonly #ctx: EngineContext
  readonly #queue: PromotionQueue
  readonly #scheduled = new Set<OpenSegment>()
  /** When this replica got the segment or took its entries over, monotonic. */
  readonly #since = new WeakMap<OpenSegment, number>()
  /** A check covers segments of many shards, whichever of them started it. */
  readonly #withoutOwnership = ownershipHere()
  #batch: { since: number; segments: OpenSegment[] } | undefined

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
    this.#queue = new PromotionQueue(ctx)
  }

  /** Promotes entries of the segment that have no outcome by then, and repeats that while any are open. */
  promoteLater(opened: OpenSegment): void {
    this.#since.set(opened, this.#ctx.clock.monotonic())
    this.#schedule(opened)
  }

  #schedule(opened: OpenSegment): void {
    if (opened.open.size === 0 || this.#scheduled.has(opened)) return
    this.#scheduled.add(opened)
    const { clock } = this.#ctx
    const now = clock.monotonic()
    if (this.#batch && now - this.#batch.since < BATCH_MS) {
      this.#batch.segments.push(opened)
      return
    }
    const segments = [opened]
    this.#batch = { since: now, segments }
    const checkAll = () => {
      for (const one of segments) this.#check(one)
    }
    this.#withoutOwnership(() => clock.after(PROMOTED_AFTER_MS + BATCH_MS, checkAll))
  }

  #check(opened: OpenSegment): void {
    this.#scheduled.delete(opened)
    if (opened.open.size === 0) return
    this.#ctx.engine.addCounted(opened)
    const now = this.#ctx.clock.monotonic()
    const isOld = now - (this.#since.get(opened) ?? now) > MAX_IN_LOG_MS
    for (const { delivery } of opened.open.values()) if (delivery) this.#promoteIfStuck(delivery, isOld)
    this.#schedule(opened)
  }

  #promoteIfStuck(delivery: Delivery, isOld: boolean): void {
    const { storage, queue } = delivery
    const { clock, shards } = this.#ctx
    if (storage.kind !== 'log' || !shards.owns(queue.shard)) return
    if (storage.promotion || queue.closed || !isOwedObject(delivery, storage)) return
    const makesProgress =
      !queue.ordered && !queue.paused && clock.monotonic() - queue.lastSuccess < PROGRESS_MS
    if (isOld || !makesProgress) this.#queue.add(delivery, storage)
  }
}
