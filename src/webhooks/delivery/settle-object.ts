/** Storing what became of an attempt whose delivery has an object: one status write. */

import { messageId } from '../../apis/ids.ts'
import type { CancelReason, WebhookDelivery, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { isApiError } from '../../kube/client.ts'
import { UnreadableError } from '../../kube/unreadable-error.ts'
import { sleep } from '../../lib/sleep.ts'
import type { AttemptEnd } from './attempt.ts'
import type { AttemptResult } from './attempt-result.ts'
import type { EngineContext } from './context.ts'
import type { Delivery } from './delivery.ts'
import { hasLostShard } from './persist.ts'
import { afterAttempt, canceledStatus, exhaustedStatus, isFinal } from './status.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/** What the status becomes, decided on the status that the object has now. */
type Decide = (before: WebhookDeliveryStatus) => WebhookDeliveryStatus

/** Repeatable. @throws ApiError what may pass by itself */
export async function recordOutcomeInObject(
  ctx: EngineContext,
  end: AttemptEnd,
  result: AttemptResult,
  object: WebhookDelivery,
): Promise<void> {
  const { delivery } = end
  const { endpoint } = delivery.queue
  const view = ctx.directory.find(endpoint)
  const policy = { ordered: view?.endpoint.spec.ordered ?? false, scale: ctx.waitScale }
  const fraction = ctx.random.fraction()
  const decide: Decide = (before) => afterAttempt(before, result, { endedAt: end.endedAt, policy, fraction })
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

/** Ends a delivery without another attempt. */
export async function cancelObject(
  ctx: EngineContext,
  delivery: Delivery,
  object: WebhookDelivery,
  reason: CancelReason,
): Promise<void> {
  await writeDecided(ctx, delivery, object, (before) => canceledStatus(before, reason, ctx.clock.now()))
}

/** Ends a delivery whose last attempt was counted by a process that ended before it wrote this. */
export async function exhaustObject(
  ctx: EngineContext,
  delivery: Delivery,
  object: WebhookDelivery,
): Promise<void> {
  await writeDecided(ctx, delivery, object, (before) => exhaustedStatus(before, ctx.clock.now()))
}

/** Goes on until the status is written, the object turns out to be gone, or the process ends. */
async function writeDecided(
  ctx: EngineContext,
  delivery: Delivery,
  object: WebhookDelivery,
  decide: Decide,
): Promise<void> {
  let held: WebhookDelivery | undefined = object
  let longest = FIRST_PAUSE_MS
  while (held) {
    const before: WebhookDeliveryStatus = held.status ?? {}
    const status = isFinal(before.state) ? before : decide(before)
    try {
      if (status !== before) await ctx.objects.writeStatus(delivery, held.metadata.resourceVersion, status)
      return stored(ctx, delivery, status)
    } catch (error) {
      held = await afterFailure(ctx, { delivery, held, error, pauseMs: longest })
      longest = Math.min(LONGEST_PAUSE_MS, longest * 2)
    }
  }
  ctx.dropped(delivery)
}

type FailedWrite = { delivery: Delivery; held: WebhookDelivery; error: unknown; pauseMs: number }

/** @returns the object to decide on again; undefined when it is gone @throws the error when the process ends, or the shard was lost */
async function afterFailure(ctx: EngineContext, failed: FailedWrite): Promise<WebhookDelivery | undefined> {
  const { delivery, held, error, pauseMs } = failed
  if (isApiError(error, 'NotFound')) return undefined
  if (ctx.giveUp.aborted || hasLostShard(ctx)) throw error
  const conflict = isApiError(error, 'Conflict')
  if (!conflict) await sleep(ctx.clock, pauseMs, ctx.giveUp)
  const found = await readAgain(ctx, delivery)
  // It would be another conflict at once.
  if (!found && conflict) await sleep(ctx.clock, pauseMs, ctx.giveUp)
  return found ?? held
}

/** Somebody else wrote the object, or an answer was lost: decide again on what is there. */
async function readAgain(ctx: EngineContext, delivery: Delivery): Promise<WebhookDelivery | undefined> {
  try {
    return await ctx.objects.read(delivery)
  } catch (error) {
    if (error instanceof UnreadableError)
      ctx.log.warn('What became of a delivery cannot be stored; trying again', { error })
    return undefined
  }
}

function stored(ctx: EngineContext, delivery: Delivery, status: WebhookDeliveryStatus): void {
  delivery.attempts = status.attemptCount ?? delivery.attempts
  if (isFinal(status.state)) {
    ctx.ended(delivery, status.state ?? 'canceled', true)
    return
  }
  delivery.stage = 'waiting'
  delivery.dueAt = Date.parse(status.nextAttemptAt ?? '') || 0
  ctx.wait(delivery)
}
