/** Reads the store at the end of a run. */
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { type WebhookDelivery, webhookDeliveries, webhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { type WebhookEvent, webhookEvent, webhookEvents } from '../../src/apis/webhook-event.ts'
import type { RawObject, ResourceReader } from '../../src/kube/client.ts'
import { readSegment } from '../../src/webhooks/log/reader.ts'
import type { LogSegment } from '../../src/webhooks/log/store.ts'
import { listAll } from '../support/list-all.ts'
import type { AcceptedDelivery } from '../support/verdict.ts'

/** An event at its first position in the log. */
export type LoggedEvent = { id: string; organization: string; type: string; body: string; segment: string }

export type StoredLog = {
  /** In the order of the log, each event at its first position. */
  deliveries: AcceptedDelivery[]
  events: LoggedEvent[]
  /** Duplicate positions of an event, which are not delivered. */
  repeats: number
}

export async function readLog(api: ResourceReader, namespace: string): Promise<StoredLog> {
  return logIn(await listAll(api, deliverySegments, { namespace }))
}

/** @param raw segments in any order */
export function logIn(raw: readonly RawObject[]): StoredLog {
  const segments = raw.flatMap((one) => readSegment(one) ?? []).sort((a, b) => a.version - b.version)
  const log: StoredLog = { deliveries: [], events: [], repeats: 0 }
  const firstPlaces = new Map<string, string>()
  for (const segment of segments) takeSegment(log, segment, firstPlaces)
  return log
}

function takeSegment(log: StoredLog, segment: LogSegment, firstPlaces: Map<string, string>): void {
  for (const { event, eventIndex, endpoint } of segment.deliveries) {
    const id = `msg_${event.id}`
    const { type, namespace: organization } = event
    const body = segment.bodies[eventIndex] ?? ''
    const position = `${segment.name}/${eventIndex}`
    // Two REST servers may accept one request with different ids: the key shows that it is one.
    const identity = `${organization} ${event.key ?? event.id}`
    const first = firstPlaces.get(identity)
    if (first === undefined) {
      firstPlaces.set(identity, position)
      log.events.push({ id, organization, type, body, segment: segment.name })
    } else if (first !== position) {
      log.repeats += 1
      continue
    }
    log.deliveries.push({ endpoint: endpoint.name, id })
  }
}

export async function readDeliveries(api: ResourceReader, namespace: string): Promise<WebhookDelivery[]> {
  return (await listAll(api, webhookDeliveries, { namespace })).map((raw) => webhookDelivery.parse(raw))
}

export async function readEvents(api: ResourceReader, namespace: string): Promise<WebhookEvent[]> {
  return (await listAll(api, webhookEvents, { namespace })).map((raw) => webhookEvent.parse(raw))
}
