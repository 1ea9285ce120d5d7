/**
 * Identifiers: ids of resources are a prefix and the object's name, so that neither needs a lookup (`whe_billing` is the
 * WebhookEndpoint `billing`); ids of events and deliveries are sortable.
 */
import { createHash } from 'node:crypto'
import { decodeBase32Number, encodeBase32, encodeBase32Number } from '../lib/text.ts'

export const ENDPOINT_PREFIX = 'whe_'
export const MESSAGE_PREFIX = 'msg_'
export const SECRET_PREFIX = 'whsec_'
export const CREDENTIAL_PREFIX = 'rc_'

/** The 26 characters of a `msg_` id: lower-case Crockford base32, inverted time first. */
export const MESSAGE_ID = /^msg_[0-9abcdefghjkmnpqrstvwxyz]{26}$/

/** An event type: letters, digits, dashes and underscores in parts between dots. */
export const EVENT_TYPE = /^[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]*[a-z0-9])?)*$/
export const MAX_EVENT_TYPE = 128
export const EVENT_TYPE_ALLOWED =
  'an event type such as environment.started: lowercase letters, digits, dashes and underscores in parts separated by dots'

/** A name may have been chosen by the author of a manifest, with any time in it. */
const TOLERANCE_MS = 60_000

type Named = { name: string; creationTimestamp?: string | undefined }

/**
 * When an object was created, ISO 8601 with milliseconds: the time in a generated name, if it is near the API server's
 * creationTimestamp (which has whole seconds), else that one (interface S2).
 */
export function createdAtOf(metadata: Named): string {
  const named = timeOfName(metadata.name)
  const stored = Date.parse(metadata.creationTimestamp ?? '')
  if (Number.isNaN(stored)) return new Date(named || 0).toISOString()
  return new Date(hasGeneratedName(metadata) ? named : stored).toISOString()
}

/** Whether Davit generated the name for this very object, so that no other had it before. */
export function hasGeneratedName({ name, creationTimestamp }: Named): boolean {
  return Math.abs(timeOfName(name) - Date.parse(creationTimestamp ?? '')) <= TOLERANCE_MS
}

/**
 * An event id is `msg_` and 26 characters of base32: 48 bits of inverted time, so that a list by name is newest first, and 80 random
 * or hashed bits. A delivery has its event's id, the same for every endpoint (interface §6.2); its object's name adds a hash of the
 * endpoint's UID.
 */

const MAX_TIME = 2 ** 48 - 1
const TIME_CHARACTERS = 10
const TAIL_CHARACTERS = 16

/** Random bytes that `sortableName` consumes. */
export const NAME_ENTROPY_BYTES = 10

/** 26 characters, newest first. @param now milliseconds since 1970 @param entropy 10 bytes */
export function sortableName(now: number, entropy: Uint8Array): string {
  return encodeBase32Number(MAX_TIME - now, TIME_CHARACTERS) + encodeBase32(entropy, TAIL_CHARACTERS)
}

/** Always the same name for a `seed`, so that a repeat after a crash derives it again. */
export function derivedName(at: number, seed: string): string {
  return sortableName(at, createHash('sha256').update(seed).digest())
}

/** A name, alone or before the endpoint's tag. Times have 48 bits, so the first character is 0 to 7. */
const SORTABLE_NAME = /^[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}(-[0-9abcdefghjkmnpqrstvwxyz]{8})?$/

/** Time in a name, or in that of a WebhookDelivery, in milliseconds since 1970; NaN if there is none. */
export function timeOfName(name: string): number {
  if (!SORTABLE_NAME.test(name)) return Number.NaN
  return MAX_TIME - decodeBase32Number(name.slice(0, TIME_CHARACTERS))
}

export function messageId(name: string): string {
  return MESSAGE_PREFIX + name
}

export function nameOfMessage(id: string): string | undefined {
  return MESSAGE_ID.test(id) ? id.slice(MESSAGE_PREFIX.length) : undefined
}

/** Name of the WebhookDelivery for an event and an endpoint. */
export function deliveryObjectName(eventName: string, endpointUid: string): string {
  return `${eventName}-${endpointTag(endpointUid)}`
}

/** 8 characters that identify an endpoint in the names of its deliveries. */
export function endpointTag(endpointUid: string): string {
  return encodeBase32(createHash('sha256').update(endpointUid).digest(), 8)
}
