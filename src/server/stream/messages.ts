import { z } from 'zod'
import { messageId, timeOfName } from '../../apis/ids.ts'
import { type DeliveryAttempt, deliveryAttempt } from '../../apis/webhook-delivery.ts'
import type { Clock } from '../../lib/time.ts'
import type { LoggedEvent } from '../../webhooks/log/store.ts'
import type { ChangeListener, DeliveryChange } from '../delivery-index/changes.ts'
import type { IndexedEvent } from '../delivery-index/event-queries.ts'
import { type DeliveryDetail, describeLine } from '../delivery-resource.ts'
import type { MessageBuffer } from './message-buffer.ts'
import { SOURCES } from './position.ts'

/** Makes messages of the stream from what the delivery index learns. They are what a client would read with GET at that moment. */

/**
 * How far back the messages of a server that has just started go, at most. The log keeps everything for two minutes (`MIN_AGE_MS` of
 * retention), so nothing younger can have been deleted before this server read it. The rest is for clocks that differ.
 */
export const KNOWN_AT_START_MS = 90_000

/** Of a draft that waits, for each attempt: two short texts of others are part of it. */
const BYTES_OF_ATTEMPT = 600

export function messagesOfChanges(buffer: MessageBuffer, clock: Pick<Clock, 'now'>): ChangeListener {
  return {
    wants: (source, version, writtenAt) => {
      if (buffer.hasSeen(source) || writtenAt >= clock.now() - KNOWN_AT_START_MS) return true
      // What retention has deleted is unknown, so the age of the log counts for all. An object may be written long after its delivery ended.
      buffer.skipped(source === 'objects' ? ['objects'] : SOURCES, version)
      return false
    },
    event: (position, event) => {
      const { namespace: organization, id: key } = event
      const render = () => JSON.stringify(acceptedEvent(event))
      buffer.add({ source: 'events', position, organization, type: 'event', key, render })
    },
    delivery: ({ source, position, organization, attempts }, read) => {
      const render = () => {
        const change = read()
        return change && JSON.stringify(changedDelivery(change, source))
      }
      const bytes = Array.isArray(attempts) ? BYTES_OF_ATTEMPT * attempts.length : 0
      buffer.add({ source, position, organization, type: 'delivery', bytes, render })
    },
    seenUpTo: (source, version) => buffer.seenUpTo(source, version),
  }
}

/** The event as lists have it when it was just accepted. */
function acceptedEvent({
  id,
  type,
  receivers,
  redeliveryOf,
}: LoggedEvent): Omit<IndexedEvent, 'segment' | 'bodyBytes'> {
  return {
    eventId: messageId(id),
    type,
    deliveries: receivers,
    statuses: { pending: receivers, retrying: 0, succeeded: 0, exhausted: 0, canceled: 0 },
    ...(redeliveryOf === undefined ? {} : { redeliveryOf }),
    createdAt: new Date(timeOfName(id)).toISOString(),
  }
}

const storedAttempts = z.array(deliveryAttempt)

function changedDelivery(
  { name, endpointName, status, attempts, ...event }: DeliveryChange,
  source: 'outcomes' | 'objects',
): DeliveryDetail {
  // Those of the log were parsed with their record.
  const made =
    source === 'outcomes' ? (attempts as DeliveryAttempt[]) : (storedAttempts.safeParse(attempts).data ?? [])
  return { ...describeLine({ name, endpoint: { name: endpointName } }, status, event), attempts: made }
}
