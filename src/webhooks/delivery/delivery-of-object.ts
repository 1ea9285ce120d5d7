/** What a WebhookDelivery says to be, and whether Davit has made it. */
import type { DeliveryOutline } from '../../apis/delivery-outline.ts'
import { deliveryObjectName, nameOfMessage } from '../../apis/ids.ts'
import { parsePosition } from '../../apis/position.ts'
import { copyString } from '../../lib/own-text.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import { INLINE_PAYLOAD_BYTES } from '../log/payload.ts'
import { type Delivery, IN_OBJECT } from './delivery.ts'
import type { DeliveryEngine } from './engine.ts'
import { longestWaitMs } from './retry-schedule.ts'

/** Organizations by the UIDs of their endpoints. */
export type Owners = ReadonlyMap<string, string>

export function organizationsByEndpoint(directory: Pick<EndpointDirectory, 'all'>): Owners {
  return new Map(
    [...directory.all()].map(({ endpoint: { metadata } }) => [metadata.uid, metadata.namespace ?? '']),
  )
}

/**
 * Somebody has made it by hand: it has not the name that its delivery has, or says to be of another organization's endpoint, whose
 * lane it must not get into.
 */
export function isForeign({ metadata, spec }: DeliveryOutline, owners: Owners): boolean {
  const event = nameOfMessage(spec.deliveryId)
  if (event === undefined) return false
  const owner = owners.get(spec.endpointUid) ?? metadata.namespace
  return owner !== metadata.namespace || metadata.name !== deliveryObjectName(event, spec.endpointUid)
}

/** Undefined when it is of no place in the log. */
export function deliveryFromObject(plane: DeliveryEngine, outline: DeliveryOutline): Delivery | undefined {
  const { spec, status, metadata } = outline
  const name = nameOfMessage(spec.deliveryId)
  const position = parsePosition(spec.position)
  if (name === undefined || position === undefined) return undefined
  const { clock, waitScale } = plane.ctx
  const attempts = status?.attemptCount ?? 0
  const latest = clock.now() + longestWaitMs(attempts, waitScale)
  const dueAt = Math.min(latest, Date.parse(status?.nextAttemptAt ?? '') || 0)
  return {
    name: copyString(name),
    queue: plane.queueFor({ namespace: metadata.namespace, name: spec.endpoint, uid: spec.endpointUid }),
    version: position.version,
    index: position.index,
    acceptedAt: Date.parse(metadata.creationTimestamp) || 0,
    ofWebhookEvent: true,
    bytes: spec.payload ?? INLINE_PAYLOAD_BYTES,
    attempts,
    dueAt,
    stage: dueAt > clock.now() ? 'waiting' : 'queued',
    left: false,
    storage: IN_OBJECT,
  }
}
