import { messageId } from '../../apis/ids.ts'
import type { CancelReason, WebhookDelivery, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { isApiError, UnreadableError } from '../../kube/client.ts'
import { sleep } from '../../lib/sleep.ts'
import { type EndpointView, endpointReference } from '../endpoints/directory.ts'
import { readLargePayload } from '../log/reader.ts'
import type { SendOutcome } from '../sender/outcome.ts'
import { activeKeys, signatureHeader } from '../sender/signature.ts'
import { ATTEMPT_DEADLINE_MS, type EngineContext, hasLostShard, retryUntilDurable } from './context.ts'
import { endEntry, promoteToObject } from './promotion.ts'
import type { Delivery, InLog } from './queue.ts'
import {
  type AttemptResult,
  afterAttempt,
  canceledStatus,
  exhaustedStatus,
  isFinal,
  isSetAside,
  setAsideStatus,
  toAttemptResult,
} from './status.ts'

/**
 * A delivery that cannot be read leaves its lane, so that those behind it go on. It has not ended: it counts as
 * pending, its object stays as it is, and the next start looks at it again.
 */
export function leaveUnread(ctx: EngineContext, delivery: Delivery, error: UnreadableError): void {
  const id = messageId(delivery.name)
  const { endpoint } = delivery.queue
  ctx.log.error('A delivery cannot be read and waits for the next start', { delivery: id, error })
  const view = ctx.directory.find(endpoint)
  if (view) {
    const message = `${id} is not sent: ${error.message}. It is looked at again when Davit starts.`
    const event = { type: 'Warning', reason: 'UnreadableDelivery', message } as const
    ctx.events.record(endpointReference(view.endpoint.metadata), event)
  }
  delivery.queue.pass(delivery)
}

/** Storing what became of an attempt whose delivery has an object: one status write. */

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/** What the status becomes, decided on the status that the object has now. */
type Decide = (before: WebhookDeliveryStatus) => WebhookDeliveryStatus

/** Repeatable. @throws ApiError what may pass by itself */
async function recordOutcomeInObject(
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

/**
 * Storing what became of an attempt of an entry of the log: a record first, then, where one is owed, the
 * object. An ordered lane may go on when the record is durable; the object is written behind it.
 */

/** Repeatable. @throws ApiError what may pass by itself */
async function recordOutcomeInLog(ctx: EngineContext, end: AttemptEnd, result: AttemptResult): Promise<void> {
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

/** One attempt of a delivery: read what is to be sent, look at its endpoint once more, sign, send, settle. */

/** What is sent, and the object that it was read from, if there is one. */
type Prepared = { body: Uint8Array; object?: WebhookDelivery }

type AttemptEnd = { delivery: Delivery; outcome: SendOutcome; startedAt: number; endedAt: number }

const STORE_RETRY_MS = 1000
/** Until the shard is asked for again. */
const SHARD_RETRY_MS = 1000

/** Resolves when the delivery no longer holds its lane; never rejects. */
export async function attempt(ctx: EngineContext, delivery: Delivery): Promise<void> {
  const { queue } = delivery
  let timedOut = false
  let succeededAt: number | undefined
  try {
    const prepared = await prepare(ctx, delivery)
    const view = prepared && readyView(ctx, delivery)
    if (!prepared || !view) return
    const end = await send(ctx, delivery, prepared.body, view)
    queue.recordAttempt(delivery, classOf(end.outcome), end.startedAt)
    timedOut = end.outcome.kind === 'failure' && end.outcome.class === 'timeout'
    if (classOf(end.outcome) === '2xx') succeededAt = ctx.clock.monotonic()
    if (end.outcome.kind === 'failure' && end.outcome.class === 'canceled') return putBack(ctx, delivery, 0)
    const settled = recordOutcome(ctx, end, prepared.object)
    // A retry keeps its place until its outcome is stored; first attempts share one write, so they need not wait.
    if (queue.ordered || prepared.object) await settled
    else ctx.background(settled, queue, 'settles')
  } catch (error) {
    ctx.log.error('An attempt could not be made', { error, delivery: messageId(delivery.name) })
    putBack(ctx, delivery, STORE_RETRY_MS)
  } finally {
    queue.release({ timedOut, succeededAt })
  }
}

/** Undefined when there is nothing to send (any more, or not now). */
async function prepare(ctx: EngineContext, delivery: Delivery): Promise<Prepared | undefined> {
  const { storage } = delivery
  if (storage.kind === 'log') {
    if (storage.promotion) await storage.promotion
    if (delivery.storage.kind === 'log') return { body: Buffer.from(storage.entry.event.payload, 'utf8') }
  }
  if (delivery.stage === 'ended') return undefined
  return await prepareObject(ctx, delivery)
}

async function prepareObject(ctx: EngineContext, delivery: Delivery): Promise<Prepared | undefined> {
  try {
    const object = await ctx.objects.read(delivery)
    const state = object.status?.state
    if (state !== undefined && isFinal(state)) {
      ctx.ended(delivery, state, true)
      return undefined
    }
    if (isSetAside(object.status)) await postpone(ctx, delivery, object)
    const { payload, payloadRef } = object.spec
    const { resources, namespace } = ctx
    const organization = delivery.queue.endpoint.namespace
    const body =
      payload ?? (payloadRef && (await readLargePayload(resources, namespace, payloadRef, organization)))
    if (body === undefined) {
      await cancelObject(ctx, delivery, object, 'PayloadLost')
      return undefined
    }
    return { body: Buffer.from(body, 'utf8'), object }
  } catch (error) {
    if (isApiError(error, 'NotFound')) ctx.dropped(delivery)
    else if (error instanceof UnreadableError) leaveUnread(ctx, delivery, error)
    else putBack(ctx, delivery, STORE_RETRY_MS)
    return undefined
  }
}

/** Should this process end at the attempt, the next one does not start with it. @throws ApiError */
async function postpone(ctx: EngineContext, delivery: Delivery, object: WebhookDelivery): Promise<void> {
  const status = setAsideStatus(ctx.clock.now(), ctx.waitScale)
  object.metadata.resourceVersion = await ctx.objects.writeStatus(
    delivery,
    object.metadata.resourceVersion,
    status,
  )
  object.status = status
}

/** The endpoint as it is now, after everything that was waited for; without it, or its shard, the delivery is held. */
function readyView(ctx: EngineContext, delivery: Delivery): EndpointView | undefined {
  const { endpoint } = delivery.queue
  if (!ctx.shards.owns(delivery.queue.shard)) {
    putBack(ctx, delivery, SHARD_RETRY_MS)
    return undefined
  }
  const view = ctx.directory.find(endpoint)
  if (view?.enabled && view.keys && !delivery.queue.paused) return view
  putBack(ctx, delivery, 0)
  return undefined
}

/**
 * Whether it may be sent as it was signed. Connecting takes up to 20 seconds: what was disabled, deleted, moved or
 * rolled in the meantime must not be on the wire afterwards (interface §3.1, §4.2 rule 3).
 */
function isStillReady(ctx: EngineContext, { queue }: Delivery, signed: EndpointView): boolean {
  const view = ctx.directory.find(queue.endpoint)
  if (!view?.enabled || queue.paused || !ctx.shards.owns(queue.shard)) return false
  return view.keys?.version === signed.keys?.version && view.endpoint.spec.url === signed.endpoint.spec.url
}

async function send(
  ctx: EngineContext,
  delivery: Delivery,
  body: Uint8Array,
  view: EndpointView,
): Promise<AttemptEnd> {
  const startedAt = ctx.clock.now()
  const id = messageId(delivery.name)
  const timestamp = Math.floor(startedAt / 1000)
  const secrets = activeKeys(view.keys?.keys ?? [], startedAt).map((key) => key.secret)
  const headers = {
    'content-type': 'application/json',
    'user-agent': ctx.userAgent,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatureHeader({ id, body, timestamp }, secrets),
  }
  if (delivery.attempts === 0) ctx.metrics.started((startedAt - delivery.acceptedAt) / 1000)
  const request = {
    url: view.endpoint.spec.url,
    headers,
    body,
    deadlineMs: ATTEMPT_DEADLINE_MS,
    isWanted: () => isStillReady(ctx, delivery, view),
  }
  const outcome = await ctx.sender.send(request, ctx.giveUp)
  ctx.metrics.attempt(classOf(outcome), outcome.latencyMs / 1000)
  return { delivery, outcome, startedAt, endedAt: ctx.clock.now() }
}

/** Goes on until the outcome is durable: without that the delivery may neither be repeated nor left. */
async function recordOutcome(
  ctx: EngineContext,
  end: AttemptEnd,
  object: WebhookDelivery | undefined,
): Promise<void> {
  const result = toAttemptResult(end.outcome, end.startedAt)
  try {
    await retryUntilDurable(ctx, 'an outcome', () =>
      object ? recordOutcomeInObject(ctx, end, result, object) : recordOutcomeInLog(ctx, end, result),
    )
  } catch (error) {
    // Only at the end of the process: what is not stored is attempted again by the next one.
    ctx.log.warn('An outcome was not stored', { error, delivery: messageId(end.delivery.name) })
  }
}

/** Not attempted: it stays as it was, and is tried again after `ms`. */
function putBack(ctx: EngineContext, delivery: Delivery, ms: number): void {
  if (delivery.stage !== 'sending') return
  delivery.stage = 'waiting'
  delivery.dueAt = ctx.clock.now() + ms
  ctx.wait(delivery)
}

function classOf(outcome: SendOutcome) {
  if (outcome.kind === 'failure') return outcome.class
  const leading = Math.floor(outcome.code / 100)
  if (leading === 2) return '2xx'
  if (leading === 3) return '3xx'
  return leading === 5 ? '5xx' : '4xx'
}
