/**
 * Storing what became of an attempt of an entry of the log: a record first, then, where one is owed, the
 * object. An ordered lane may go on when the record is durable; the object is written behind it.
 */
import type { AttemptResult } from '../../domain/attempt-result.ts'
import { afterAttempt } from '../../domain/delivery.ts'
import { messageId } from '../../domain/message-id.ts'
import type { AttemptEnd } from './attempt.ts'
import type { Delivery, LogHome } from './delivery.ts'
import { endEntry, moveToObject } from './move-to-object.ts'
import type { PlaneContext } from './plane-context.ts'
import { settleObject } from './settle-object.ts'

/** Repeatable. @throws ApiError what may pass by itself */
export async function settleFromLog(
  ctx: PlaneContext,
  end: AttemptEnd,
  result: AttemptResult,
): Promise<void> {
  const { delivery } = end
  const { home } = delivery
  if (home.kind === 'log') {
    // An object on its way (the attempt took long) shows the outcome in its own status.
    if (home.moving) await home.moving
    if (delivery.home === home) return await record(ctx, end, result, home)
  }
  const object = await ctx.objects.find(delivery)
  if (object) await settleObject(ctx, end, result, object)
  else ctx.dropped(delivery)
}

async function record(
  ctx: PlaneContext,
  end: AttemptEnd,
  result: AttemptResult,
  home: LogHome,
): Promise<void> {
  const { delivery } = end
  const { endpoint } = delivery.lane
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
  ctx.background(shown(ctx, delivery, home), delivery.lane, 'settles')
}

async function recordSuccess(
  ctx: PlaneContext,
  delivery: Delivery,
  home: LogHome,
  result: AttemptResult,
): Promise<void> {
  const { endpoint } = delivery.lane
  const view = ctx.directory.find(endpoint)
  await ctx.streaks.succeeded(endpoint, view)
  const { deliveryLog = 'Objects', ordered: isUrgent = false } = view?.endpoint.spec ?? {}
  const object = deliveryLog === 'Objects' || home.mayBeShown === true
  const { attempt } = result
  await ctx.outcomes.record({ kind: 'sent', position: delivery, attempt, object }, { isUrgent })
  if (!object) return endEntry(ctx, delivery, home, 'succeeded')
  // Durable: the lane may go on, and the object follows.
  delivery.lane.pass(delivery)
  ctx.background(moveToObject(ctx, delivery, home), delivery.lane, 'settles')
}

/** The object of a failure, and then the wait for the next attempt. */
async function shown(ctx: PlaneContext, delivery: Delivery, home: LogHome): Promise<void> {
  await moveToObject(ctx, delivery, home)
  if (delivery.stage !== 'sending') return
  delivery.stage = 'waiting'
  delivery.dueAt = Date.parse(home.status?.nextAttemptAt ?? '') || 0
  ctx.wait(delivery)
}
