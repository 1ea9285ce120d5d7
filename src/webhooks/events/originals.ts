import { readDeliverySegment } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId, nameOfMessage, timeOfName } from '../../apis/ids.ts'
import { unlessUnreadable } from '../../apis/log-format.ts'
import { webhookDeliveries, webhookDelivery } from '../../apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { isApiError, type ResourceReader, UnreadableError } from '../../kube/client.ts'
import { yieldToEventLoop } from '../../lib/time.ts'
import type { EndpointIdentity } from '../endpoints/directory.ts'
import { byteLength, decodeDeliveries } from '../log/codec.ts'
import { type LogStore, type StoredSegment, scanBackwards } from '../log/log-store.ts'
import { LOG_PAGE, readLargePayload } from '../log/reader.ts'

/** Finds the events of deliveries that are to be redelivered: in their objects, or in the log. */

/** `deliveryId` is the `msg_` id of the original delivery. */
export type Original = { deliveryId: string; type: string; payload: string }

export type OriginalSources = { resources: ResourceReader; store: Pick<LogStore, 'page' | 'read'> }

/** Of an event's id, with which its line begins. */
const ID_LENGTH = 26

/** Bodies that one search may hold in memory. */
const MAX_FOUND_BYTES = 16 * 1024 * 1024

/**
 * Undefined if this endpoint has no such delivery, or no longer.
 * @param segmentOf name of the segment with the delivery's event, if there is one
 */
export async function findOriginal(
  sources: OriginalSources,
  endpoint: EndpointIdentity,
  deliveryId: string,
  segmentOf: (endpoint: EndpointIdentity, deliveryId: string) => string | undefined,
): Promise<Original | undefined> {
  const { namespace, uid } = endpoint
  const event = nameOfMessage(deliveryId)
  if (event === undefined) return undefined
  const original = await readObject(sources, { namespace, name: deliveryObjectName(event, uid) }, uid)
  if (original) return original
  const segment = segmentOf(endpoint, deliveryId)
  if (segment === undefined) return undefined
  const stored = await sources.store.read('events', segment)
  return stored && originalsIn(stored, new Set([event]), uid).next().value
}

/** Clocks of those who name events and segments may differ by so much. */
const CLOCK_MARGIN_MS = 60 * 60_000

/** By delivery id, and the ids that were not looked for because the bodies found before them take up enough memory. */
export type FoundOriginals = { found: Map<string, Original>; later: Set<string> }

export type OriginalSearch = {
  /** How long the log keeps a delivery that has ended. */
  retentionMs: number
  /** Milliseconds since 1970. */
  now: number
  /** Ends the search between two pages. */
  signal: AbortSignal
}

/**
 * Finds several originals of one endpoint without an index: those without an object in one search of the log, newest segments first, which
 * reads no further back than the oldest of their ids. An id that is older than the log keeps is not searched for.
 * @returns those that exist, at least one of them; what is in neither does not exist
 * @throws ApiError, and the signal's reason
 */
export async function findOriginals(
  sources: OriginalSources,
  { metadata: { namespace = '', uid } }: WebhookEndpoint,
  deliveryIds: readonly string[],
  { retentionMs, now, signal }: OriginalSearch,
): Promise<FoundOriginals> {
  const found = new Map<string, Original>()
  const later = new Set<string>()
  const missing = new Set<string>()
  let bytes = 0
  const take = (original: Original) => {
    found.set(original.deliveryId, original)
    bytes += byteLength(original.payload)
    return bytes < MAX_FOUND_BYTES
  }
  for (const deliveryId of deliveryIds) {
    signal.throwIfAborted()
    if (bytes >= MAX_FOUND_BYTES) {
      later.add(deliveryId)
      continue
    }
    const event = nameOfMessage(deliveryId)
    if (event === undefined) continue
    const original = await readObject(sources, { namespace, name: deliveryObjectName(event, uid) }, uid)
    if (original) take(original)
    else if (now - timeOfName(event) <= retentionMs + CLOCK_MARGIN_MS) missing.add(event)
  }
  const isComplete =
    bytes < MAX_FOUND_BYTES && (await searchLog(sources, uid, missing, { now, signal }, take))
  if (!isComplete) for (const event of missing) later.add(messageId(event))
  return { found, later }
}

async function readObject(
  { resources, store }: OriginalSources,
  ref: { namespace: string; name: string },
  uid: string,
): Promise<Original | undefined> {
  try {
    const { data } = webhookDelivery.safeParse(await resources.get(webhookDeliveries, ref))
    // Another endpoint's object may have the name.
    if (data?.spec.endpointUid !== uid) return undefined
    const { deliveryId, eventType, payload, payloadRef } = data.spec
    const text = payload ?? (payloadRef && (await readLargePayload(store, payloadRef, ref.namespace)))
    return text === undefined ? undefined : { deliveryId, type: eventType, payload: text }
  } catch (error) {
    if (isApiError(error, 'NotFound') || error instanceof UnreadableError) return undefined
    throw error
  }
}

/**
 * @param missing the 26 characters of each id that is looked for; empties as they are found
 * @param take false ends the search
 * @returns false if it was ended before everything was looked for
 */
async function searchLog(
  { store }: OriginalSources,
  uid: string,
  missing: Set<string>,
  { now, signal }: Pick<OriginalSearch, 'now' | 'signal'>,
  take: (original: Original) => boolean,
): Promise<boolean> {
  if (missing.size === 0) return true
  // An event is named before its segment is written. A time in the future was chosen by the author of a request.
  const oldest = Math.min(now, ...[...missing].map(timeOfName)) - CLOCK_MARGIN_MS
  for await (const raw of scanBackwards(store, 'events', LOG_PAGE)) {
    signal.throwIfAborted()
    if (Date.parse(String(raw.metadata.creationTimestamp ?? '')) < oldest) return true
    await yieldToEventLoop()
    for (const original of originalsIn(raw, missing, uid)) {
      missing.delete(nameOfMessage(original.deliveryId) ?? '')
      if (!take(original)) return missing.size === 0
    }
    if (missing.size === 0) return true
  }
  return true
}

/** @param missing the 26 characters of each id that is looked for; checked before each of the results @param uid of the endpoint */
function* originalsIn(
  raw: StoredSegment,
  missing: ReadonlySet<string>,
  uid: string,
): IterableIterator<Original> {
  const lines = unlessUnreadable(() => readDeliverySegment(raw).spec)
  // Much cheaper than to decode a segment that has none of them.
  if (!lines?.events.some((line) => missing.has(line.slice(0, ID_LENGTH)))) return
  const { deliveries, bodies } = decodeDeliveries(lines)
  for (const { event, eventIndex, endpoint } of deliveries) {
    const payload = bodies[eventIndex]
    if (endpoint.uid === uid && missing.has(event.id) && payload !== undefined)
      yield { deliveryId: messageId(event.id), type: event.type, payload }
  }
}
