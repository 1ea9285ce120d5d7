import { messageId } from '../../apis/ids.ts'
import type { WebhookDelivery } from '../../apis/webhook-delivery.ts'
import { isApiError, UnreadableError } from '../../kube/client.ts'
import type { AttemptClass } from '../../lib/metrics.ts'
import type { EndpointView } from '../endpoints/directory.ts'
import { readLargePayload } from '../log/reader.ts'
import type { SendOutcome } from '../sender/outcome.ts'
import { activeKeys, signatureHeader } from '../sender/signature.ts'
import { ATTEMPT_DEADLINE_MS, type EngineContext, warnOnEndpoint } from './context.ts'
import { type AttemptEnd, cancelObject, recordOutcome } from './outcome.ts'
import type { Delivery } from './queue.ts'
import { isFinal, isSetAside, setAsideStatus } from './status.ts'

/** One attempt of a delivery: read the payload, check the endpoint again, sign, send, record the outcome. */

type Prepared = { body: Uint8Array; object?: WebhookDelivery }

/** Before another try, if the payload cannot be read or the shard is not owned. */
const RETRY_MS = 1000

/** Never rejects. */
export async function attempt(ctx: EngineContext, delivery: Delivery): Promise<void> {
  const { queue } = delivery
  let timedOut = false
  let succeededAt: number | undefined
  try {
    const prepared = await prepare(ctx, delivery)
    const view = prepared && readyView(ctx, delivery)
    if (!prepared || !view) return
    const end = await send(ctx, delivery, prepared.body, view)
    const result = classOf(end.outcome)
    queue.recordAttempt(delivery, result, end.startedAt)
    timedOut = result === 'timeout'
    if (result === '2xx') succeededAt = ctx.clock.monotonic()
    if (result === 'canceled') return putBack(ctx, delivery, 0)
    const settled = recordOutcome(ctx, end, prepared.object)
    // A retry holds its queue until its outcome is stored. First attempts share one write, so they need not wait.
    if (queue.ordered || prepared.object) await settled
    else ctx.engine.runInBackground(settled, queue, 'settles')
  } catch (error) {
    ctx.log.error('An attempt could not be made', { error, delivery: messageId(delivery.name) })
    putBack(ctx, delivery, RETRY_MS)
  } finally {
    queue.release({ timedOut, succeededAt })
  }
}

async function prepare(ctx: EngineContext, delivery: Delivery): Promise<Prepared | undefined> {
  const { storage } = delivery
  if (storage.kind === 'log') {
    if (storage.promotion) await storage.promotion
    if (delivery.storage.kind === 'log') return { body: Buffer.from(storage.entry.event.payload, 'utf8') }
  }
  if (delivery.stage === 'ended') return undefined
  try {
    return await prepareFromObject(ctx, delivery)
  } catch (error) {
    if (isApiError(error, 'NotFound')) ctx.engine.drop(delivery)
    else if (error instanceof UnreadableError) leaveUnread(ctx, delivery, error)
    else putBack(ctx, delivery, RETRY_MS)
    return undefined
  }
}

async function prepareFromObject(ctx: EngineContext, delivery: Delivery): Promise<Prepared | undefined> {
  const object = await ctx.objects.read(delivery)
  const state = object.status?.state
  if (state !== undefined && isFinal(state)) {
    ctx.engine.finish(delivery, state, true)
    return undefined
  }
  if (isSetAside(object.status)) await postpone(ctx, delivery, object)
  const { payload, payloadRef } = object.spec
  const { namespace } = delivery.queue.endpoint
  const body =
    payload ?? (payloadRef && (await readLargePayload(ctx.resources, ctx.namespace, payloadRef, namespace)))
  if (body !== undefined) return { body: Buffer.from(body, 'utf8'), object }
  await cancelObject(ctx, delivery, object, 'PayloadLost')
  return undefined
}

/** Lets those behind a delivery that cannot be read go on. It stays pending, and the next start tries it again. */
export function leaveUnread(ctx: EngineContext, delivery: Delivery, error: UnreadableError): void {
  const id = messageId(delivery.name)
  ctx.log.error('A delivery cannot be read and waits for the next start', { delivery: id, error })
  const message = `${id} is not sent: ${error.message}. It is looked at again when Davit starts.`
  warnOnEndpoint(ctx, delivery.queue.endpoint, 'UnreadableDelivery', message)
  delivery.queue.pass(delivery)
}

/** Should the attempt crash this process, the next one does not start with it again. @throws ApiError */
async function postpone(ctx: EngineContext, delivery: Delivery, object: WebhookDelivery): Promise<void> {
  const { metadata } = object
  const status = setAsideStatus(ctx.clock.now(), ctx.waitScale)
  metadata.resourceVersion = await ctx.objects.writeStatus(delivery, metadata.resourceVersion, status)
  object.status = status
}

/** The endpoint as it is after all the waiting. If it, or the shard, is not ready, the delivery is put back. */
function readyView(ctx: EngineContext, delivery: Delivery): EndpointView | undefined {
  const { queue } = delivery
  const isOwned = ctx.shards.owns(queue.shard)
  const view = isOwned ? ctx.directory.find(queue.endpoint) : undefined
  if (view?.enabled && view.keys && !queue.paused) return view
  putBack(ctx, delivery, isOwned ? 0 : RETRY_MS)
  return undefined
}

/** Connecting takes up to 20 s: what was signed must not reach an endpoint changed since (interface §3.1, §4.2 rule 3). */
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
