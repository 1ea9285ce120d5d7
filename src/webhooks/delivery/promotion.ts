import { messageId } from '../../apis/ids.ts'
import type { CancelReason, DeliveryState } from '../../apis/webhook-delivery.ts'
import { withOwnership, withoutOwnership } from '../../ha/ownership.ts'
import { ApiError } from '../../kube/client.ts'
import { Fifo } from '../../lib/semaphore.ts'
import { endpointReference } from '../endpoints/directory.ts'
import { type EngineContext, hasLostShard, retryUntilDurable } from './context.ts'
import type { StoreResult } from './objects.ts'
import { type Delivery, IN_OBJECT, type InLog } from './queue.ts'
import { isFinal } from './status.ts'

/**
 * Giving an entry of the log its WebhookDelivery: after the first outcome, or after two seconds without one.
 * The entry is closed by a `moved` record; until that is durable everything here may be repeated.
 */

/** A delivery whose object nobody may make is driven from the log for so long, then canceled. */
const REFUSED_FOR_MS = 10 * 60_000
/** The API server gives a request up after a minute, answered or not. */
const MAY_COME_MS = 65_000

/**
 * Makes the object and closes the entry. At most one at a time for an entry: a second call waits for the first.
 * @param made told when the object is there, and its entry is still open
 * @throws Error only when the process ends before that
 */
export async function promoteToObject(
  ctx: EngineContext,
  delivery: Delivery,
  home: InLog,
  made: () => void = () => undefined,
): Promise<void> {
  while (home.promotion) await home.promotion
  if (delivery.storage !== home) return
  const moving = promote(ctx, delivery, home, made)
  home.promotion = moving.catch(() => undefined)
  try {
    await moving
  } finally {
    home.promotion = undefined
  }
}

/** Another replica may have brought the entry to its end meanwhile: nothing would show the end of an object that is made then. */
async function store(ctx: EngineContext, delivery: Delivery, home: InLog): Promise<StoreResult | undefined> {
  if (!home.segment.open.has(delivery.index)) return undefined
  const result = await ctx.objects.store(delivery, home, home.status)
  // The entry stays open meanwhile: nothing would show the end of an object that comes after it was closed.
  if (result.kind === 'refused' && isFinal(home.status?.state) && mayCome(ctx, home))
    throw new ApiError('Unavailable', 'a call that was not answered may still make the object')
  return result
}

/** Whether an object may still be made by an earlier call, which was not answered. */
function mayCome({ clock }: EngineContext, { objectMayExist, unansweredAt = 0 }: InLog): boolean {
  return objectMayExist === true && clock.monotonic() - unansweredAt < MAY_COME_MS
}

async function promote(ctx: EngineContext, delivery: Delivery, home: InLog, made: () => void): Promise<void> {
  const result = await retryUntilDurable(ctx, 'a delivery', () => store(ctx, delivery, home))
  made()
  const { state } = home.status ?? {}
  if (!result) {
    if (state && isFinal(state)) endEntry(ctx, delivery, home, state)
    return
  }
  if (result.kind === 'stored') {
    await ctx.outcomes.record({ kind: 'moved', position: delivery })
    return close(ctx, delivery, home)
  }
  if (state && isFinal(state)) {
    // What it came to is durable; that nothing will show it changes nothing about it.
    if (result.kind === 'refused') complain(ctx, delivery, result.message)
    await ctx.outcomes.record({ kind: 'moved', position: delivery })
    return endEntry(ctx, delivery, home, state)
  }
  if (result.kind === 'namespaceGone') return await cancelEntry(ctx, delivery, home, 'NamespaceGone')
  await refused(ctx, delivery, home, result.message)
}

/** The object shows it from here on. */
function close(ctx: EngineContext, delivery: Delivery, home: InLog): void {
  if (delivery.storage !== home) return
  const state = home.status?.state
  delivery.storage = IN_OBJECT
  if (state && isFinal(state)) ctx.ended(delivery, state, true)
  else ctx.promoted(delivery)
}

/** Quota or policy: it goes on from the log for a while. */
async function refused(ctx: EngineContext, delivery: Delivery, home: InLog, message: string): Promise<void> {
  const now = ctx.clock.now()
  home.refusedSince ??= now
  complain(ctx, delivery, message)
  if (now - home.refusedSince > REFUSED_FOR_MS && !mayCome(ctx, home))
    await cancelEntry(ctx, delivery, home, 'CannotStore')
}

function complain(ctx: EngineContext, delivery: Delivery, message: string): void {
  const view = ctx.directory.find(delivery.queue.endpoint)
  if (view) {
    ctx.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Warning',
      reason: 'CannotStoreDelivery',
      message: `No WebhookDelivery can be made: ${message}`,
    })
  }
  ctx.log.warn('A delivery object was refused', { delivery: messageId(delivery.name), message })
}

/** Ends an entry of the log without an object. */
export async function cancelEntry(
  ctx: EngineContext,
  delivery: Delivery,
  home: InLog,
  reason: CancelReason,
): Promise<void> {
  await ctx.outcomes.record({ kind: 'canceled', position: delivery, reason })
  endEntry(ctx, delivery, home, 'canceled')
}

/** The entry's end is durable, and no object shows it. */
export function endEntry(ctx: EngineContext, delivery: Delivery, home: InLog, state: DeliveryState): void {
  if (delivery.storage !== home) return
  delivery.storage = IN_OBJECT
  ctx.ended(delivery, state, false)
}

/**
 * Entries of the log that are to get an object though nothing has come of them yet: a few at a time, so that a
 * backlog of thousands takes neither the API server nor the room for outcomes from the endpoints that get along.
 */

/** Objects that are being made. */
const AT_A_TIME = 16
/** These, and those whose object is there and whose entry is still to be closed: a write of so many records waits for no more. */
const MAX_OPEN = 64
/** Between tries of an object that was refused. */
const FIRST_RETRY_MS = 2000
const LONGEST_RETRY_MS = 60_000

type Retry = { dueAt: number; waitMs: number }

export class PromotionQueue {
  readonly #ctx: EngineContext
  readonly #queue = new Fifo<Delivery>()
  readonly #queued = new Set<Delivery>()
  /** Those that were refused, while they stay in the log. */
  readonly #retries = new WeakMap<InLog, Retry>()
  readonly #aside = withoutOwnership()
  #making = 0
  #open = 0

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Asked for again and again while it stays in the log. */
  add(delivery: Delivery, home: InLog): void {
    const retry = this.#retries.get(home)
    if (this.#queued.has(delivery) || (retry && retry.dueAt > this.#ctx.clock.monotonic())) return
    this.#queued.add(delivery)
    this.#queue.push(delivery)
    this.#pump()
  }

  #pump(): void {
    while (this.#making < AT_A_TIME && this.#open < MAX_OPEN && !this.#ctx.giveUp.aborted) {
      const delivery = this.#queue.shift()
      if (!delivery) return
      this.#making += 1
      this.#open += 1
      const made = once(() => {
        this.#making -= 1
        // What comes next is not done for the shard of this one.
        this.#aside(() => this.#pump())
      })
      const { shards } = this.#ctx
      const moved = withOwnership(shards, delivery.queue.shard, () => this.#move(delivery, made)).finally(
        () => {
          this.#queued.delete(delivery)
          this.#open -= 1
          made()
          this.#pump()
        },
      )
      this.#ctx.background(moved, delivery.queue)
    }
  }

  /** @param made told when its object is there: another one may be made while the record of that is written */
  async #move(delivery: Delivery, made: () => void): Promise<void> {
    const { storage, queue } = delivery
    // An outcome that has come meanwhile brings the object itself.
    if (storage.kind !== 'log' || storage.status || queue.closed || !this.#ctx.shards.owns(queue.shard))
      return
    try {
      await promoteToObject(this.#ctx, delivery, storage, made)
    } catch (error) {
      if (!this.#ctx.giveUp.aborted && !hasLostShard(this.#ctx))
        this.#ctx.log.error('A delivery was not given its object', { error })
    }
    if (delivery.storage === storage) this.#refused(storage)
  }

  #refused(home: InLog): void {
    const waitMs = Math.min(LONGEST_RETRY_MS, (this.#retries.get(home)?.waitMs ?? FIRST_RETRY_MS / 2) * 2)
    this.#retries.set(home, { dueAt: this.#ctx.clock.monotonic() + waitMs, waitMs })
  }
}

function once(run: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    run()
  }
}
