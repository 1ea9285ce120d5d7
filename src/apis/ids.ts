/**
 * Ids of events and deliveries. An id is `msg_` and 26 characters of base32: 48 bits of inverted time, so that
 * a plain list by name is newest first, and 80 bits of chance or of a hash. A delivery's id is its event's, the
 * same for every endpoint (interface §6.2); its object adds a hash of the endpoint's UID.
 */
import { createHash } from 'node:crypto'
import { decodeBase32Number, encodeBase32, encodeBase32Number } from '../lib/text.ts'
import { MESSAGE_ID, MESSAGE_PREFIX } from './identifiers.ts'

const MAX_TIME = 2 ** 48 - 1
const TIME_CHARACTERS = 10
const TAIL_CHARACTERS = 16

/** Bytes of chance that `sortableName` consumes. */
export const NAME_ENTROPY_BYTES = 10

/** 26 characters, newest first. @param now milliseconds since 1970 @param entropy 10 bytes */
export function sortableName(now: number, entropy: Uint8Array): string {
  return encodeBase32Number(MAX_TIME - now, TIME_CHARACTERS) + encodeBase32(entropy, TAIL_CHARACTERS)
}

/** The same name again for the same `seed`: what a repeat after a crash derives. */
export function derivedName(at: number, seed: string): string {
  return sortableName(at, createHash('sha256').update(seed).digest())
}

/** A name, alone or before the endpoint's tag. Times have 48 bits, so that the first character is 0 to 7. */
const SORTABLE_NAME = /^[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}(-[0-9abcdefghjkmnpqrstvwxyz]{8})?$/

/**
 * Time of a name, or of the event of a WebhookDelivery's name, in milliseconds since 1970; NaN when it is
 * neither.
 */
export function timeOfName(name: string): number {
  if (!SORTABLE_NAME.test(name)) return Number.NaN
  return MAX_TIME - decodeBase32Number(name.slice(0, TIME_CHARACTERS))
}

export function messageId(name: string): string {
  return MESSAGE_PREFIX + name
}

/** The 26 characters of a `msg_` id, or undefined when it is none. */
export function nameOfMessage(id: string): string | undefined {
  return MESSAGE_ID.test(id) ? id.slice(MESSAGE_PREFIX.length) : undefined
}

/** Name of the WebhookDelivery of an event to an endpoint. */
export function deliveryObjectName(eventName: string, endpointUid: string): string {
  return `${eventName}-${endpointTag(endpointUid)}`
}

/** 8 characters that stand for an endpoint in the names of its deliveries. */
export function endpointTag(endpointUid: string): string {
  return encodeBase32(createHash('sha256').update(endpointUid).digest(), 8)
}
