import { API_VERSION, type ObjectMeta } from '../../apis/meta.ts'
import { webhookEndpointKind } from '../../apis/webhook-endpoint.ts'

/** What an Event about an endpoint refers to. */
export function endpointReference(metadata: ObjectMeta) {
  return { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, metadata }
}
