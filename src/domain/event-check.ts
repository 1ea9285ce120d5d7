/** Whether an event may be published (settled: "Events and deliveries"). */
import { MAX_DATA_BYTES } from '../api/webhook-event.ts'
import { byteLength } from './payload.ts'

/** Types that only Davit publishes. */
export const RESERVED_PREFIX = 'webhook.'

export type RefusalReason =
  | 'Reserved'
  | 'UnknownType'
  | 'NotJson'
  | 'TooLarge'
  | 'SchemaMismatch'
  | 'SchemaInvalid'
  | 'NotAnOrganization'
  | 'Unreadable'
export type Refusal = { reason: RefusalReason; message: string }

export type CheckedType = { name: string; known: boolean }

/** The first rule that the event breaks; undefined when it may be published, as far as its schema allows. */
export function refuseEvent(type: CheckedType, dataText: string): Refusal | undefined {
  if (type.name.startsWith(RESERVED_PREFIX)) {
    return {
      reason: 'Reserved',
      message: `spec.type: ${type.name} is published by Davit only; types that start with "webhook." are reserved`,
    }
  }
  if (!type.known) {
    return {
      reason: 'UnknownType',
      message: `spec.type: there is no EventType ${type.name}; see kubectl get eventtypes`,
    }
  }
  if (byteLength(dataText) > MAX_DATA_BYTES) {
    return {
      reason: 'TooLarge',
      message: `data: ${byteLength(dataText)} bytes of JSON; at most ${MAX_DATA_BYTES} are allowed`,
    }
  }
  return undefined
}
