/** What is kept of objects of the API server as they are read. */
import { deliveryListItem } from '../../../api/delivery-shown.ts'
import { decodeOutcomeRecords } from '../../../api/outcome-record.ts'
import { readOutcomeSegment } from '../../../api/outcome-segment.ts'
import { webhookDeliveryKind } from '../../../api/webhook-delivery.ts'
import { isFinal } from '../../../domain/delivery.ts'
import { deliveryObjectName, nameOfMessage } from '../../../domain/message-id.ts'
import type { RawObject } from '../../../ports/kubernetes.ts'
import { UnreadableError } from '../../unreadable-error.ts'
import { packedName } from './packed-id.ts'
import type { ObjectDelivery } from './shown-lines.ts'
import type { OutcomeBatch } from './told-lines.ts'

/** @throws ZodError, UnreadableError when it is none of Davit's */
export function readObjectDelivery(raw: RawObject): ObjectDelivery {
  const { metadata, spec, status = {} } = deliveryListItem.parse(raw)
  const name = nameOfMessage(spec.deliveryId)
  const id = name === undefined ? undefined : packedName(name)
  // A name that does not follow from what it holds would be found for one delivery, and shown for another.
  if (name === undefined || !id || metadata.name !== deliveryObjectName(name, spec.endpointUid))
    throw new UnreadableError(webhookDeliveryKind.kind, `${metadata.namespace}/${metadata.name}`)
  const state = status.state ?? 'pending'
  return {
    namespace: metadata.namespace,
    endpointUid: spec.endpointUid,
    id,
    type: spec.eventType,
    redeliveryOf: spec.redeliveryOf,
    state,
    attempts: status.attemptCount ?? 0,
    at: Date.parse((isFinal(state) ? status.completedAt : status.nextAttemptAt) ?? ''),
  }
}

/** Without the lines that cannot be read. @throws ZodError when it is none */
export function readOutcomeBatch(raw: RawObject): OutcomeBatch {
  const { metadata, spec } = readOutcomeSegment(raw)
  return {
    name: metadata.name,
    version: Number(metadata.resourceVersion),
    writtenAt: spec.writtenAt,
    records: decodeOutcomeRecords(spec),
  }
}
