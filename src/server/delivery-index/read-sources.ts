/** What is kept of objects of the API server as they are read. */

import { readOutcomeSegment } from '../../apis/api-outcome-segment.ts'
import { deliveryListItem } from '../../apis/delivery-shown.ts'
import { deliveryObjectName, nameOfMessage } from '../../apis/ids.ts'
import { decodeOutcomeRecords } from '../../apis/outcome-segment.ts'
import { webhookDeliveryKind } from '../../apis/webhook-delivery.ts'
import type { RawObject } from '../../kube/client.ts'
import { UnreadableError } from '../../kube/unreadable-error.ts'
import { isFinal } from '../../webhooks/delivery/status.ts'
import type { OutcomeBatch } from './delivery-lines.ts'
import { packedName } from './packed-id.ts'
import type { ObjectDelivery } from './shown-lines.ts'

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
