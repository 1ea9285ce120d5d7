/** One attempt of a delivery: read what is to be sent, look at its endpoint once more, sign, send, settle. */

import { messageId } from '../../apis/ids.ts'
import type { WebhookDelivery } from '../../apis/webhook-delivery.ts'
import { isApiError } from '../../kube/client.ts'
import { UnreadableError } from '../../kube/unreadable-error.ts'
import type { EndpointView } from '../endpoints/directory.ts'
import { largePayload } from '../log/large-payload.ts'
import { signatureHeader } from '../sender/domain-signature.ts'
import { activeKeys } from '../sender/signature.ts'
import type { SendOutcome } from '../sender/webhook-sender.ts'
import { toAttemptResult } from './attempt-result.ts'
import { ATTEMPT_DEADLINE_MS, type EngineContext } from './context.ts'
import type { Delivery } from './delivery.ts'
import { leaveUnread } from './leave-unread.ts'
import { retryUntilDurable } from './persist.ts'
import { recordOutcomeInLog } from './settle-from-log.ts'
import { cancelObject, recordOutcomeInObject } from './settle-object.ts'
import { isFinal, isSetAside, setAsideStatus } from './status.ts'

/** What is sent, and the object that it was read from, if there is one. */
type Prepared = { body: Uint8Array; object?: WebhookDelivery }

export type AttemptEnd = { delivery: Delivery; outcome: SendOutcome; startedAt: number; endedAt: number }

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
      payload ?? (payloadRef && (await largePayload(resources, namespace, payloadRef, organization)))
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
