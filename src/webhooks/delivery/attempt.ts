import { messageId } from '../../apis/ids.ts'
import type { CancelReason, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { isApiError, UnreadableError } from '../../kube/client.ts'
import type { AttemptClass } from '../../lib/metrics.ts'
import { withPeriod } from '../../lib/text.ts'
import { exponentialMs, sleep } from '../../lib/time.ts'
import type { EndpointIdentity, EndpointView } from '../endpoints/directory.ts'
import { INLINE_PAYLOAD_BYTES } from '../log/codec.ts'
import { activeKeys } from '../sender/key-rotation.ts'
import type { SendOutcome } from '../sender/send-failures.ts'
import { signatureHeader } from '../sender/signature.ts'
import {
  ATTEMPT_DEADLINE_MS,
  type EngineContext,
  hasLostShard,
  maySend,
  PAUSES,
  retryUntilDurable,
  warnOnEndpoint,
} from './context.ts'
import { bodyOf, type Delivery, type InLog, type ObjectState, stateOf } from './endpoint-queue.ts'
import {
  type AttemptResult,
  afterAttempt,
  canceledStatus,
  hasEndedController,
  isFinal,
  toAttemptResult,
} from './plan.ts'
import { cancelEntry, endEntry, promoteToObject } from './promotion.ts'

/**
 * One attempt of a delivery: read the payload, check the endpoint again, sign, send, record the outcome: in the log while the
 * delivery is an entry there, then in the status of its object. README.md has the protocol.
 */

type AttemptEnd = { delivery: Delivery; outcome: SendOutcome; startedAt: number; endedAt: number }

type Prepared = { body: Uint8Array; object?: ObjectState }

/** An attempt that takes longer is slow: a quarter of its deadline. */
const SLOW_MS = ATTEMPT_DEADLINE_MS / 4
/** Before another try, if the payload cannot be read or the shard is not owned. */
const RETRY_MS = 1000

/** Never rejects. */
export async function attempt(ctx: EngineContext, delivery: Delivery): Promise<void> {
  const { queue } = delivery
  const { clock, engine } = ctx
  const startedAt = clock.monotonic()
  let timedOut = false
  let succeededAt: number | undefined
  let settled: Promise<void> = Promise.resolve()
  let end: () => void = () => undefined
  try {
    // An attempt that is recorded and not made would look like one that ended this process.
    if (!readyView(ctx, delivery)) return
    end = await ctx.careful.begin(delivery)
    const prepared = await prepare(ctx, delivery)
    const view = prepared && readyView(ctx, delivery)
    if (!prepared || !view) return
    const made = await send(ctx, delivery, prepared.body, view)
    // This process has survived it. Its next attempt is like any other.
    delivery.isSuspect = false
    const result = classOf(made.outcome)
    queue.recordAttempt(delivery, result, made.startedAt)
    timedOut = result === 'timeout'
    if (result === '2xx') succeededAt = clock.monotonic()
    if (result === 'canceled') return putBack(ctx, delivery, 0)
    settled = recordOutcome(ctx, made, prepared.object)
    // A retry holds its queue until its outcome is stored. First attempts share one write, so they need not wait.
    if (queue.ordered || prepared.object) await settled
    else engine.runInBackground(settled, queue, 'settles')
  } catch (error) {
    ctx.log.error('attempt_not_made', 'failed to make a delivery attempt; retrying', {
      error,
      delivery: messageId(delivery.name),
    })
    putBack(ctx, delivery, RETRY_MS)
  } finally {
    // A receiver may answer as late as it likes, but not with the places that others wait for.
    const isSlow = engine.isCrowded && clock.monotonic() - startedAt > SLOW_MS
    queue.release({ tookTooLong: timedOut || isSlow, succeededAt })
    void settled.then(end)
  }
}

async function prepare(ctx: EngineContext, delivery: Delivery): Promise<Prepared | undefined> {
  const { storage } = delivery
  if (storage.kind === 'log' && storage.promotion) await storage.promotion
  try {
    if (delivery.storage === storage && storage.kind === 'log') {
      const prepared = await prepareFromLog(ctx, delivery, storage)
      // It may have got its object while its body was read.
      if (prepared || delivery.storage === storage) return prepared
    }
    if (delivery.stage === 'ended') return undefined
    return await prepareFromObject(ctx, delivery)
  } catch (error) {
    if (isApiError(error, 'NotFound')) ctx.engine.drop(delivery)
    else if (error instanceof UnreadableError) leaveUnread(ctx, delivery, error)
    else putBack(ctx, delivery, RETRY_MS)
    return undefined
  }
}

/** Undefined if the body is gone, or the entry is no longer open. @throws ApiError; UnreadableError */
async function prepareFromLog(
  ctx: EngineContext,
  delivery: Delivery,
  storage: InLog,
): Promise<Prepared | undefined> {
  const body = bodyOf(storage)
  if (body.buffer) return { body: body.buffer }
  const read = await ctx.payloads.read(body, delivery.queue.endpoint.namespace)
  if (storage.promotion) await storage.promotion
  if (delivery.storage !== storage) return undefined
  if (read) return { body: read }
  await cancelEntry(ctx, delivery, storage, 'PayloadLost')
  return undefined
}

async function prepareFromObject(ctx: EngineContext, delivery: Delivery): Promise<Prepared | undefined> {
  const object = await ctx.objects.read(delivery)
  const state = object.status?.state
  if (state !== undefined && isFinal(state)) {
    delivery.endVersion = object.metadata.resourceVersion
    ctx.engine.finish(delivery, state, true)
    return undefined
  }
  // Should the attempt end this process again, the next owner knows that no other one did.
  if (hasEndedController(object.status)) await ctx.careful.record(delivery, { isAlone: true })
  const known = stateOf(object)
  const { payload, payloadRef } = object.spec
  const { namespace } = delivery.queue.endpoint
  const body =
    payload === undefined
      ? payloadRef && (await ctx.payloads.readReferred(payloadRef, namespace))
      : Buffer.from(payload, 'utf8')
  if (body) return { body, object: known }
  await cancelObject(ctx, delivery, known, 'PayloadLost')
  return undefined
}

/** Lets those behind a delivery that cannot be read go on. It stays pending, and the next start tries it again. */
export function leaveUnread(ctx: EngineContext, delivery: Delivery, error: UnreadableError): void {
  const id = messageId(delivery.name)
  const skipped = 'failed to read a delivery; skipped until the next start'
  ctx.log.error('delivery_unreadable', skipped, { delivery: id, error })
  const message = `Davit cannot send the delivery ${id}: ${withPeriod(error.message)} Davit will skip the delivery and retry it after the Davit controller restarts.`
  warnOnEndpoint(ctx, delivery.queue.endpoint, 'UnreadableDelivery', message)
  delivery.queue.pass(delivery)
}

/** The endpoint as it is after all the waiting. If it, or the shard, is not ready, the delivery is put back. */
function readyView(ctx: EngineContext, delivery: Delivery): EndpointView | undefined {
  const { queue } = delivery
  const isOwned = maySend(ctx, queue)
  const view = isOwned ? ctx.directory.find(queue.endpoint) : undefined
  if (view?.enabled && view.keys && !queue.paused) return view
  putBack(ctx, delivery, isOwned ? 0 : RETRY_MS)
  return undefined
}

/** Connecting takes up to 20 s: what was signed must not reach an endpoint changed since (interface §3.1, §4.2 rule 3). */
function isStillReady(ctx: EngineContext, { queue }: Delivery, signed: EndpointView): boolean {
  const view = ctx.directory.find(queue.endpoint)
  if (!view?.enabled || queue.paused || !maySend(ctx, queue)) return false
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
    // Firewalls score requests that do not have it, and clients such as curl send it.
    accept: '*/*',
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

function putBack(ctx: EngineContext, delivery: Delivery, ms: number): void {
  if (delivery.stage !== 'sending') return
  delivery.stage = 'waiting'
  delivery.dueAt = ctx.clock.now() + ms
  ctx.engine.wait(delivery)
}

function classOf(outcome: SendOutcome): AttemptClass {
  if (outcome.kind === 'failure') return outcome.class
  const leading = Math.floor(outcome.code / 100)
  if (leading === 2) return '2xx'
  if (leading === 3) return '3xx'
  return leading === 5 ? '5xx' : '4xx'
}

type Decide = (before: WebhookDeliveryStatus) => WebhookDeliveryStatus

/** Resolves when the outcome is durable. Until then the delivery may be neither repeated nor left. */
async function recordOutcome(
  ctx: EngineContext,
  end: AttemptEnd,
  object: ObjectState | undefined,
): Promise<void> {
  const result = toAttemptResult(end.outcome, end.startedAt)
  const { delivery } = end
  ctx.lastAttempts.record(delivery.queue.endpoint, messageId(delivery.name), result.attempt, result.succeeded)
  try {
    await retryUntilDurable(ctx, 'store outcome', () =>
      object ? recordInObject(ctx, end, result, object) : recordInLog(ctx, end, result),
    )
  } catch (error) {
    // Only at the end of the process; the next one repeats the attempt.
    ctx.log.warn('outcome_not_stored', 'failed to store an outcome; the attempt may be repeated', {
      error,
      delivery: messageId(delivery.name),
    })
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
  object: ObjectState,
): Promise<void> {
  const { delivery } = end
  const { endpoint } = delivery.queue
  const { view, decide } = statusAfter(ctx, end, result)
  const write = () => writeDecidedStatus(ctx, delivery, object, decide)
  if (result.succeeded) {
    await ctx.streaks.succeeded(endpoint, view)
    await write()
  } else if (decide(object.status ?? {}).state === 'exhausted') {
    await ctx.streaks.exhausted(endpoint, messageId(delivery.name), write)
    reportExhausted(ctx, endpoint, result)
  } else {
    await write()
  }
}

/** Without the id of the delivery, so that one Event counts them. */
function reportExhausted(ctx: EngineContext, endpoint: EndpointIdentity, { attempt }: AttemptResult): void {
  const { namespace, name } = endpoint
  const message = `A delivery exhausted its retries. The last error was: ${attempt.error}. To list such deliveries, run: kubectl -n ${namespace} get webhookdeliveries --field-selector spec.endpoint=${name},status.state=exhausted`
  warnOnEndpoint(ctx, endpoint, 'DeliveryExhausted', message)
}

export async function cancelObject(
  ctx: EngineContext,
  delivery: Delivery,
  object: ObjectState,
  reason: CancelReason,
): Promise<void> {
  await writeDecidedStatus(ctx, delivery, object, (before) => canceledStatus(before, reason, ctx.clock.now()))
}

/** Retries until the status is written, the object is gone, or the process ends. */
export async function writeDecidedStatus(
  ctx: EngineContext,
  delivery: Delivery,
  object: ObjectState,
  decide: Decide,
): Promise<void> {
  let current: ObjectState | undefined = object
  for (let failures = 1; current; failures += 1) {
    const before: WebhookDeliveryStatus = current.status ?? {}
    const status = isFinal(before.state) ? before : decide(before)
    try {
      if (status === before) delivery.endVersion = current.version
      else await ctx.objects.writeStatus(delivery, current.version, status)
      return afterWrite(ctx, delivery, status)
    } catch (error) {
      current = await afterFailure(ctx, delivery, current, error, exponentialMs(failures, PAUSES))
    }
  }
  ctx.engine.drop(delivery)
}

/** @returns the object to decide on again; undefined if it is gone @throws the error if the process ends or the shard is lost */
async function afterFailure(
  ctx: EngineContext,
  delivery: Delivery,
  object: ObjectState,
  error: unknown,
  pauseMs: number,
): Promise<ObjectState | undefined> {
  if (isApiError(error, 'NotFound')) return undefined
  if (ctx.giveUp.aborted || hasLostShard(ctx)) throw error
  const isConflict = isApiError(error, 'Conflict')
  if (!isConflict) await sleep(ctx.clock, pauseMs, ctx.giveUp)
  const found = await readAgain(ctx, delivery)
  // With the old version the next write would conflict at once.
  if (!found && isConflict) await sleep(ctx.clock, pauseMs, ctx.giveUp)
  return found ?? object
}

async function readAgain(ctx: EngineContext, delivery: Delivery): Promise<ObjectState | undefined> {
  try {
    return stateOf(await ctx.objects.read(delivery))
  } catch (error) {
    if (error instanceof UnreadableError)
      ctx.log.warn('outcome_store_failed', 'failed to store the outcome of an attempt; retrying', { error })
    return undefined
  }
}

function afterWrite(ctx: EngineContext, delivery: Delivery, status: WebhookDeliveryStatus): void {
  delivery.attempts = status.attemptCount ?? delivery.attempts
  if (isFinal(status.state)) ctx.engine.finish(delivery, status.state, true)
  else waitForNext(ctx, delivery, status)
}

export function waitForNext(
  ctx: EngineContext,
  delivery: Delivery,
  status: WebhookDeliveryStatus | undefined,
): void {
  // Late work of an earlier ownership: the delivery may be in progress again.
  if (hasLostShard(ctx)) return
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
  const object = await takeState(ctx, delivery)
  if (object) await recordInObject(ctx, end, result, object)
  else ctx.engine.drop(delivery)
}

/** The object that this process created during the attempt is not read: if it has changed since, the write conflicts and reads it. */
async function takeState(ctx: EngineContext, delivery: Delivery): Promise<ObjectState | undefined> {
  const { created } = delivery
  delivery.created = undefined
  if (created) return created
  const object = await ctx.objects.find(delivery)
  return object && stateOf(object)
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
  if (status.state === 'exhausted') {
    await ctx.streaks.exhausted(queue.endpoint, messageId(delivery.name), write)
    reportExhausted(ctx, queue.endpoint, result)
  } else {
    await write()
  }
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
  const isUrgent = view?.endpoint.spec.ordered ?? false
  // A failure before is to be seen, and an object that a call without an answer may still create has to show the end.
  const isOwed = delivery.attempts > 1 || storage.objectMayExist === true
  const body = bodyOf(storage)
  const isLarge = body.bytes > INLINE_PAYLOAD_BYTES
  // The view will refer to the segment of its body, which retention keeps while the entry is open.
  const isPromised = !isOwed && isLarge && ctx.engine.hasRoomForView(queue.endpoint.namespace)
  // The end of the entry frees its body.
  const bodyOfView = { ...body, buffer: isLarge ? undefined : body.buffer }
  const object = isOwed || isPromised
  await ctx.outcomes.record({ kind: 'sent', position: delivery, attempt, object }, { isUrgent })
  if (isOwed) {
    queue.pass(delivery)
    ctx.engine.runInBackground(promoteToObject(ctx, delivery, storage), queue, 'settles')
    return
  }
  endEntry(ctx, delivery, storage, 'succeeded')
  if (isPromised && body.open === 1) ctx.payloads.drop(body)
  ctx.engine.addView(delivery, storage, { body: bodyOfView, isPromised })
}

async function promoteFailed(ctx: EngineContext, delivery: Delivery, storage: InLog): Promise<void> {
  await promoteToObject(ctx, delivery, storage)
  if (delivery.stage === 'sending') waitForNext(ctx, delivery, storage.status)
}
