/** Whether an event may be published (settled: "Events and deliveries"). */
import { MAX_DATA_BYTES } from '../../apis/webhook-event.ts'
import { byteLength } from '../log/payload.ts'

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

/** What of an event a rule was broken by, however the event came. */
export type EventPart = 'type' | 'data'
/** @param words without the name of the part, for whoever names it in his own way */
export type EventRefusal = { reason: RefusalReason; part: EventPart; words: string }

export type CheckedType = { name: string; known: boolean }

/** The first rule that the event breaks; undefined when it may be published, as far as its schema allows. */
export function refuseEvent(type: CheckedType, dataText: string): EventRefusal | undefined {
  if (type.name.startsWith(RESERVED_PREFIX)) {
    const words = `${type.name} is published by Davit only; types that start with "webhook." are reserved`
    return { reason: 'Reserved', part: 'type', words }
  }
  if (!type.known) {
    return { reason: 'UnknownType', part: 'type', words: `there is no EventType ${type.name}` }
  }
  if (byteLength(dataText) > MAX_DATA_BYTES) {
    const words = `${byteLength(dataText)} bytes of JSON; at most ${MAX_DATA_BYTES} are allowed`
    return { reason: 'TooLarge', part: 'data', words }
  }
  return undefined
}
