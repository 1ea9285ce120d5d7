/** What the parts of the delivery plane share. */
import type { DeliveryState } from '../../api/webhook-delivery.ts'
import type { Clock, Random } from '../../ports/clock.ts'
import type { OutcomeRecorder } from '../../ports/delivery-log.ts'
import type { EventRecorder } from '../../ports/event-recorder.ts'
import type { ResourceReader } from '../../ports/kubernetes.ts'
import type { Logger } from '../../ports/log.ts'
import type { DeliveryMetrics } from '../../ports/metrics.ts'
import type { WebhookSender } from '../../ports/webhook-sender.ts'
import type { ShardOwnership } from '../../runtime/shards/ownership.ts'
import type { EndpointDirectory } from '../endpoint/endpoint-directory.ts'
import type { EndpointHealth } from '../endpoint/endpoint-streaks.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryObjects } from './delivery-objects.ts'
import type { EndpointQueue } from './lane.ts'
import type { OpenSegments } from './open-segments.ts'

/** One deadline over name resolution, connect, TLS, request and response (interface §6.3). */
export const ATTEMPT_DEADLINE_MS = 20_000

export type EngineContext = {
  clock: Clock
  random: Random
  log: Logger
  metrics: DeliveryMetrics
  sender: WebhookSender
  events: EventRecorder
  directory: EndpointDirectory
  streaks: EndpointHealth
  resources: ResourceReader
  objects: DeliveryObjects
  outcomes: OutcomeRecorder
  segments: OpenSegments
  shards: ShardOwnership
  /** Operator's namespace: where segments are. */
  namespace: string
  userAgent: string
  /** Factor on the documented waits. */
  waitScale: number
  /** Aborted when running attempts are to be given up. */
  giveUp: AbortSignal
  /** The delivery is due later, at `delivery.dueAt`. */
  wait: (delivery: Delivery) => void
  /** The delivery has come to its end, durably; with `object` there is a WebhookDelivery of it. */
  ended: (delivery: Delivery, state: DeliveryState, object: boolean) => void
  /** An object shows it, and it has not ended. */
  promoted: (delivery: Delivery) => void
  /** It is no longer this process's business (its object was deleted). */
  dropped: (delivery: Delivery) => void
  /**
   * Work that goes on after the lane was released; waited for before the lane is handed over, or the process ends.
   * @param how `settles` when too much of it is to keep the lane from starting more
   */
  background: (work: Promise<unknown>, lane: EndpointQueue, how?: 'settles') => void
}
