/**
 * The start of the delivery plane: every WebhookDelivery is looked at once; what has not ended goes on where it
 * was, what has ended is counted for retention.
 */
import { type DeliveryOutline, deliveryOutline } from '../../api/delivery-outline.ts'
import { parsePosition } from '../../api/position.ts'
import { webhookDeliveries } from '../../api/webhook-delivery.ts'
import { isFinal } from '../../domain/delivery.ts'
import { messageId, nameOfMessage } from '../../domain/message-id.ts'
import { INLINE_PAYLOAD_BYTES } from '../../domain/payload.ts'
import { isRestored } from '../../domain/restored.ts'
import { LONGEST_WAIT_MS } from '../../domain/retry-schedule.ts'
import { isApiError, type Page, type RawObject, type ResourceReader } from '../../ports/kubernetes.ts'
import { ownText } from '../../runtime/own-text.ts'
import { type Delivery, OBJECT_HOME } from './delivery.ts'
import type { DeliveryPlane } from './delivery-plane.ts'
import type { LogIntake } from './log-intake.ts'
import { persist } from './persist.ts'
import { cancelObject, exhaustObject } from './settle-object.ts'

export type RecoverOptions = {
  plane: DeliveryPlane
  intake: LogIntake
  /** Told of every delivery. */
  onFound?: (outline: DeliveryOutline) => void
}

/** The adapter asks for fewer where they are large; a list in pages half as large takes a third longer. */
const PAGE = 2500

/** @returns how many are not finished @throws ApiError only when the process ends before that */
export async function recoverObjects(options: RecoverOptions): Promise<number> {
  const { ctx } = options.plane
  const ask = (from?: string) => persist(ctx, 'reading deliveries', () => pageOf(ctx.resources, from))
  let unfinished = 0
  /** Where a list is started again, what was seen before is not taken twice. */
  const seen = new Set<string>()
  let asked = ask()
  for (;;) {
    const page = await asked
    // The API server makes the next page while this one is taken in.
    if (page === undefined || page.continue !== undefined) asked = ask(page?.continue)
    for (const raw of page?.items ?? []) unfinished += takeOne(options, raw, seen)
    if (page && page.continue === undefined) return unfinished
  }
}

/** Undefined when the list took longer than the server keeps old versions: it begins again. */
async function pageOf(resources: ResourceReader, from: string | undefined): Promise<Page | undefined> {
  try {
    return await resources.list(webhookDeliveries, { limit: PAGE }, from)
  } catch (error) {
    if (isApiError(error, 'Gone')) return undefined
    throw error
  }
}

function takeOne(options: RecoverOptions, raw: RawObject, seen: Set<string>): number {
  const parsed = deliveryOutline.safeParse(raw)
  if (!parsed.success) {
    options.plane.ctx.log.warn('A WebhookDelivery cannot be read', { name: raw.metadata.name })
    return 0
  }
  const outline = parsed.data
  if (seen.has(outline.metadata.uid)) return 0
  seen.add(outline.metadata.uid)
  options.onFound?.(outline)
  const { state, attemptCount = 0 } = outline.status ?? {}
  const { namespace, name } = outline.metadata
  const held = options.intake.found({ namespace, name, attemptCount, final: isFinal(state) })
  if (isFinal(state) || !options.plane.owns(outline.spec.endpointUid)) return 0
  const delivery = deliveryOf(options.plane, outline)
  if (held || !delivery) return held ? 1 : 0
  options.plane.take(delivery)
  if (isRestored(Date.parse(outline.spec.writtenAt), Date.parse(outline.metadata.creationTimestamp))) {
    cancelRestored(options.plane, delivery)
  } else if (wasCounted(options.plane, delivery)) {
    exhaustCounted(options.plane, delivery)
  }
  return 1
}

function deliveryOf(plane: DeliveryPlane, outline: DeliveryOutline): Delivery | undefined {
  const { spec, status, metadata } = outline
  const name = nameOfMessage(spec.deliveryId)
  const position = parsePosition(spec.position)
  if (name === undefined || position === undefined) return undefined
  const { clock, waitScale } = plane.ctx
  const latest = clock.now() + LONGEST_WAIT_MS * waitScale
  const dueAt = Math.min(latest, Date.parse(status?.nextAttemptAt ?? '') || 0)
  return {
    name: ownText(name),
    lane: plane.laneOf({ namespace: metadata.namespace, name: spec.endpoint, uid: spec.endpointUid }),
    version: position.version,
    index: position.index,
    acceptedAt: Date.parse(metadata.creationTimestamp) || 0,
    bytes: spec.payload ?? INLINE_PAYLOAD_BYTES,
    attempts: status?.attemptCount ?? 0,
    dueAt,
    stage: dueAt > clock.now() ? 'waiting' : 'queued',
    left: false,
    home: OBJECT_HOME,
  }
}

/** Counted as exhausted, but the process ended before the delivery's own end was written. */
function wasCounted(plane: DeliveryPlane, { name, lane }: Delivery): boolean {
  return plane.ctx.directory.find(lane.endpoint)?.endpoint.status?.lastCounted === messageId(name)
}

/** Before another delivery of the endpoint is counted, after which nothing would tell that this one was. */
function exhaustCounted(plane: DeliveryPlane, delivery: Delivery): void {
  const { ctx } = plane
  delivery.stage = 'sending'
  const exhaust = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await exhaustObject(ctx, delivery, object)
    else ctx.dropped(delivery)
  }
  const end = () => persist(ctx, 'the end of an exhausted delivery', exhaust)
  ctx.background(ctx.streaks.exhausted(delivery.lane.endpoint, messageId(delivery.name), end))
}

function cancelRestored(plane: DeliveryPlane, delivery: Delivery): void {
  const { ctx } = plane
  delivery.stage = 'sending'
  const cancel = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await cancelObject(ctx, delivery, object, 'Restored')
    else ctx.dropped(delivery)
  }
  ctx.background(persist(ctx, 'the end of a restored delivery', cancel))
}
