/**
 * Storing what became of an attempt of an entry of the log: a record first, then, where one is owed, the
 * object. An ordered lane may go on when the record is durable; the object is written behind it.
 */

import { messageId } from '../../apis/ids.ts'
import type { AttemptEnd } from './attempt.ts'
import type { AttemptResult } from './attempt-result.ts'
import type { EngineContext } from './context.ts'
import type { Delivery, InLog } from './delivery.ts'
import { endEntry, promoteToObject } from './promotion.ts'
import { recordOutcomeInObject } from './settle-object.ts'
import { afterAttempt } from './status.ts'

/** Repeatable. @throws ApiError what may pass by itself */
export async function recordOutcomeInLog(
  ctx: EngineContext,
  end: AttemptEnd,
  result: AttemptResult,
): Promise<void> {
  const { delivery } = end
  const { storage } = delivery
  if (storage.kind === 'log') {
    // An object on its way (the attempt took long) shows the outcome in its own status.
    if (storage.promotion) await storage.promotion
    if (delivery.storage === storage) return await record(ctx, end, result, storage)
  }
  const object = await ctx.objects.find(delivery)
  if (object) await recordOutcomeInObject(ctx, end, result, object)
  else ctx.dropped(delivery)
}

async function record(
  ctx: EngineContext,
  end: AttemptEnd,
  result: AttemptResult,
  home: InLog,
): Promise<void> {
  const { delivery } = end
  const { endpoint } = delivery.queue
  const view = ctx.directory.find(endpoint)
  const policy = { ordered: view?.endpoint.spec.ordered ?? false, scale: ctx.waitScale }
  const times = { endedAt: end.endedAt, policy, fraction: ctx.random.fraction() }
  const status = afterAttempt(home.status ?? {}, result, times)
  home.status = status
  delivery.attempts = status.attemptCount ?? delivery.attempts
  if (status.state === 'succeeded') return await recordSuccess(ctx, delivery, home, result)
  const write = () =>
    ctx.outcomes.record(
      {
        kind: 'failed',
        position: delivery,
        attempt: result.attempt,
        nextAttemptAt: Date.parse(status.nextAttemptAt ?? '') || 0,
      },
      { isUrgent: policy.ordered },
    )
  if (status.state === 'exhausted') await ctx.streaks.exhausted(endpoint, messageId(delivery.name), write)
  else await write()
  ctx.background(promoteFailed(ctx, delivery, home), delivery.queue, 'settles')
}

async function recordSuccess(
  ctx: EngineContext,
  delivery: Delivery,
  home: InLog,
  result: AttemptResult,
): Promise<void> {
  const { endpoint } = delivery.queue
  const view = ctx.directory.find(endpoint)
  await ctx.streaks.succeeded(endpoint, view)
  const { deliveryLog = 'Objects', ordered: isUrgent = false } = view?.endpoint.spec ?? {}
  const object = deliveryLog === 'Objects' || home.objectMayExist === true
  const { attempt } = result
  await ctx.outcomes.record({ kind: 'sent', position: delivery, attempt, object }, { isUrgent })
  if (!object) return endEntry(ctx, delivery, home, 'succeeded')
  // Durable: the lane may go on, and the object follows.
  delivery.queue.pass(delivery)
  ctx.background(promoteToObject(ctx, delivery, home), delivery.queue, 'settles')
}

/** The object of a failure, and then the wait for the next attempt. */
async function promoteFailed(ctx: EngineContext, delivery: Delivery, home: InLog): Promise<void> {
  await promoteToObject(ctx, delivery, home)
  if (delivery.stage !== 'sending') return
  delivery.stage = 'waiting'
  delivery.dueAt = Date.parse(home.status?.nextAttemptAt ?? '') || 0
  ctx.wait(delivery)
}
