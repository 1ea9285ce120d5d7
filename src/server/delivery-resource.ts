import { messageId, timeOfName } from '../apis/ids.ts'
import type { DeliveryAttempt, DeliveryState } from '../apis/webhook-delivery.ts'
import { isFinal } from '../webhooks/delivery/status.ts'
import type { LineStatus } from './delivery-index/line-table.ts'
import type { Lines } from './delivery-index/lines.ts'

/** One delivery as the list shows it, from its line or its object. server/delivery-routes.ts describes the fields (interface §2.5). */

/** Times are ISO 8601, UTC, with milliseconds. */
export type DeliveryLine = {
  /** `msg_...` */
  deliveryId: string
  eventType: string
  status: DeliveryState
  attemptCount: number
  /** Only while pending or retrying, if known. */
  nextAttemptAt?: string
  /** Only after the end. */
  completedAt?: string
  redeliveryOf?: string
  createdAt: string
}

export type DeliveryDetail = DeliveryLine & { attempts: readonly DeliveryAttempt[] }

export function lineOf(lines: Lines, line: number): DeliveryLine {
  return describeLine(lines.table.name(line), lines.table.status(line), {
    type: lines.typeOf(line),
    redeliveryOf: lines.redeliveryOf(line),
  })
}

export function describeLine(
  name: string,
  { state, attempts, at }: LineStatus,
  event: { type: string; redeliveryOf?: string | undefined },
): DeliveryLine {
  const time = timeText(at)
  return {
    deliveryId: messageId(name),
    eventType: event.type,
    status: state,
    attemptCount: attempts,
    ...(time === undefined ? {} : isFinal(state) ? { completedAt: time } : { nextAttemptAt: time }),
    ...(event.redeliveryOf === undefined ? {} : { redeliveryOf: event.redeliveryOf }),
    createdAt: new Date(timeOfName(name)).toISOString(),
  }
}

function timeText(at: number): string | undefined {
  const time = new Date(at)
  return at > 0 && !Number.isNaN(time.getTime()) ? time.toISOString() : undefined
}
