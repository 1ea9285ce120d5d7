/** What the parts of the delivery plane share. */
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import type { ShardOwnership } from '../../ha/shards-ownership.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/event-recorder.ts'
import type { DeliveryMetrics } from '../../lib/metrics.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import type { EndpointHealth } from '../endpoints/health.ts'
import type { OutcomeRecorder } from '../log/store.ts'
import type { WebhookSender } from '../sender/webhook-sender.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryObjects } from './objects.ts'
import type { OpenSegments } from './open-segments.ts'
import type { EndpointQueue } from './queue.ts'

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
