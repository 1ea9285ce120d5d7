import { messageId } from '../../apis/ids.ts'
import type { CancelReason, WebhookDelivery, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { isApiError, UnreadableError } from '../../kube/client.ts'
import { sleep } from '../../lib/time.ts'
import type { SendOutcome } from '../sender/outcome.ts'
import { type EngineContext, hasLostShard, nextPauseMs, retryUntilDurable } from './context.ts'
import { endEntry, promoteToObject } from './promotion.ts'
import type { Delivery, InLog } from './queue.ts'
import {
  type AttemptResult,
  afterAttempt,
  canceledStatus,
  exhaustedStatus,
  isFinal,
  toAttemptResult,
} from './status.ts'

/** Records outcomes of attempts: in the log while the delivery is an entry there, then in the status of its object. README.md. */

export type AttemptEnd = { delivery: Delivery; outcome: SendOutcome; startedAt: number; endedAt: number }

type Decide = (before: WebhookDeliveryStatus) => WebhookDeliveryStatus

/** Resolves when the outcome is durable. Until then the delivery may be neither repeated nor left. */
export async function recordOutcome(
  ctx: EngineContext,
  end: AttemptEnd,
  object: WebhookDelivery | undefined,
): Promise<void> {
  const result = toAttemptResult(end.outcome, end.startedAt)
  try {
    await retryUntilDurable(ctx, 'an outcome', () =>
      object ? recordInObject(ctx, end, result, object) : recordInLog(ctx, end, result),
    )
  } catch (error) {
    // Only at the end of the process; the next one repeats the attempt.
    ctx.log.warn('An outcome was not stored', { error, delivery: messageId(end.delivery.name) })
  }
}

function statusAfter(ctx: EngineContext, { delivery, endedAt }: AttemptEnd, result: AttemptResult) {
  const view = ctx.directory.find(delivery.queue.endpoint)
  const policy = { ordered: view?.endpoint.spec.ordered ?? false, scale: ctx.waitScale }
  const when = { endedAt, policy, fraction: ctx.random.fraction() }
  return { view, policy, decide: (before: WebhookDeliveryStatus) => afterAttempt(before, result, when) }
}

async function recordInObject(
  ctx: EngineContext,
  end: AttemptEnd,
  result: AttemptResult,
  object: WebhookDelivery,
): Promise<void> {
  const { delivery } = end
  const { endpoint } = delivery.queue
  const { view, decide } = statusAfter(ctx, end, result)
  const write = () => writeDecided(ctx, delivery, object, decide)
  if (result.succeeded) {
    await ctx.streaks.succeeded(endpoint, view)
    await write()
  } else if (decide(object.status ?? {}).state === 'exhausted') {
    await ctx.streaks.exhausted(endpoint, messageId(delivery.name), write)
  } else {
    await write()
  }
}

export async function cancelObject(
  ctx: EngineContext,
  delivery: Delivery,
  object: WebhookDelivery,
  reason: CancelReason,
): Promise<void> {
  await writeDecided(ctx, delivery, object, (before) => canceledStatus(before, reason, ctx.clock.now()))
}

/** Ends a delivery that was counted as exhausted by a process that ended before it wrote the status. */
export async function exhaustObject(
  ctx: EngineContext,
  delivery: Delivery,
  object: WebhookDelivery,
): Promise<void> {
  await writeDecided(ctx, delivery, object, (before) => exhaustedStatus(before, ctx.clock.now()))
}

/** Retries until the status is written, the object is gone, or the process ends. */
async function writeDecided(
  ctx: EngineContext,
  delivery: Delivery,
  object: WebhookDelivery,
  decide: Decide,
): Promise<void> {
  let current: WebhookDelivery | undefined = object
  for (let pauseMs = nextPauseMs(); current; pauseMs = nextPauseMs(pauseMs)) {
    const before: WebhookDeliveryStatus = current.status ?? {}
    const status = isFinal(before.state) ? before : decide(before)
    try {
      if (status !== before) await ctx.objects.writeStatus(delivery, current.metadata.resourceVersion, status)
      return afterWrite(ctx, delivery, status)
    } catch (error) {
      current = await afterFailure(ctx, delivery, current, error, pauseMs)
    }
  }
  ctx.engine.drop(delivery)
}

/** @returns the object to decide on again; undefined if it is gone @throws the error if the process ends or the shard is lost */
async function afterFailure(
  ctx: EngineContext,
  delivery: Delivery,
  object: WebhookDelivery,
  error: unknown,
  pauseMs: number,
): Promise<WebhookDelivery | undefined> {
  if (isApiError(error, 'NotFound')) return undefined
  if (ctx.giveUp.aborted || hasLostShard(ctx)) throw error
  const isConflict = isApiError(error, 'Conflict')
  if (!isConflict) await sleep(ctx.clock, pauseMs, ctx.giveUp)
  const found = await readAgain(ctx, delivery)
  // With the old version the next write would conflict at once.
  if (!found && isConflict) await sleep(ctx.clock, pauseMs, ctx.giveUp)
  return found ?? object
}

async function readAgain(ctx: EngineContext, delivery: Delivery): Promise<WebhookDelivery | undefined> {
  try {
    return await ctx.objects.read(delivery)
  } catch (error) {
    if (error instanceof UnreadableError)
      ctx.log.warn('What became of a delivery cannot be stored; trying again', { error })
    return undefined
  }
}

function afterWrite(ctx: EngineContext, delivery: Delivery, status: WebhookDeliveryStatus): void {
  delivery.attempts = status.attemptCount ?? delivery.attempts
  if (isFinal(status.state)) ctx.engine.finish(delivery, status.state ?? 'canceled', true)
  else waitForNext(ctx, delivery, status)
}

export function waitForNext(
  ctx: EngineContext,
  delivery: Delivery,
  status: WebhookDeliveryStatus | undefined,
): void {
  delivery.stage = 'waiting'
  delivery.dueAt = Date.parse(status?.nextAttemptAt ?? '') || 0
  ctx.engine.wait(delivery)
}

async function recordInLog(ctx: EngineContext, end: AttemptEnd, result: AttemptResult): Promise<void> {
  const { delivery } = end
  const { storage } = delivery
  if (storage.kind === 'log') {
    // The attempt took long, and the object was created meanwhile: its status shows the outcome.
    if (storage.promotion) await storage.promotion
    if (delivery.storage === storage) return await recordOfEntry(ctx, end, result, storage)
  }
  const object = await ctx.objects.find(delivery)
  if (object) await recordInObject(ctx, end, result, object)
  else ctx.engine.drop(delivery)
}

/** The record comes first; the object, if one is owed, follows in the background, and an ordered queue need not wait for it. */
async function recordOfEntry(
  ctx: EngineContext,
  end: AttemptEnd,
  result: AttemptResult,
  storage: InLog,
): Promise<void> {
  const { delivery } = end
  const { queue } = delivery
  const { policy, decide } = statusAfter(ctx, end, result)
  const status = decide(storage.status ?? {})
  storage.status = status
  delivery.attempts = status.attemptCount ?? delivery.attempts
  if (status.state === 'succeeded') return await recordSuccess(ctx, delivery, storage, result)
  const nextAttemptAt = Date.parse(status.nextAttemptAt ?? '') || 0
  const record = { kind: 'failed', position: delivery, attempt: result.attempt, nextAttemptAt } as const
  const write = () => ctx.outcomes.record(record, { isUrgent: policy.ordered })
  if (status.state === 'exhausted')
    await ctx.streaks.exhausted(queue.endpoint, messageId(delivery.name), write)
  else await write()
  ctx.engine.runInBackground(promoteFailed(ctx, delivery, storage), queue, 'settles')
}

async function recordSuccess(
  ctx: EngineContext,
  delivery: Delivery,
  storage: InLog,
  { attempt }: AttemptResult,
): Promise<void> {
  const { queue } = delivery
  const view = ctx.directory.find(queue.endpoint)
  await ctx.streaks.succeeded(queue.endpoint, view)
  const { deliveryLog = 'Objects', ordered: isUrgent = false } = view?.endpoint.spec ?? {}
  const object = deliveryLog === 'Objects' || storage.objectMayExist === true
  await ctx.outcomes.record({ kind: 'sent', position: delivery, attempt, object }, { isUrgent })
  if (!object) return endEntry(ctx, delivery, storage, 'succeeded')
  queue.pass(delivery)
  ctx.engine.runInBackground(promoteToObject(ctx, delivery, storage), queue, 'settles')
}

async function promoteFailed(ctx: EngineContext, delivery: Delivery, storage: InLog): Promise<void> {
  await promoteToObject(ctx, delivery, storage)
  if (delivery.stage === 'sending') waitForNext(ctx, delivery, storage.status)
}
