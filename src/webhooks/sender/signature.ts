import { createHash, createHmac, createSecretKey } from 'node:crypto'
import { SECRET_PREFIX } from '../../apis/ids.ts'
import { memoize } from '../../lib/memoize.ts'

/**
 * Signing keys and signatures of webhooks: Standard Webhooks, scheme `v1` (interface §5.5); how keys are rotated, with an
 * overlap or at once, and expire (interface §4.2 rule 3).
 */

/** 32 characters of base64, without padding. */
export const KEY_BYTES = 24

/** `whsec_` and the key in base64. */
export function formatSecret(key: Uint8Array): string {
  return SECRET_PREFIX + Buffer.from(key).toString('base64')
}

/** First 16 hexadecimal digits of the secret's SHA-256: distinguishes keys and reveals nothing. */
export function fingerprintOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex').slice(0, 16)
}

export type SignedMessage = {
  /** `msg_...` */
  id: string
  /** The exact bytes that are sent. */
  body: Uint8Array
  /** Time of the attempt in seconds since 1970. */
  timestamp: number
}

/**
 * Value of `webhook-signature`: one `v1,<base64>` per secret, separated by spaces, in the order given.
 * @param secrets `whsec_...`, at least one
 */
export function signatureHeader(message: SignedMessage, secrets: readonly string[]): string {
  const prefix = `${message.id}.${message.timestamp}.`
  const sign = (secret: string) =>
    createHmac('sha256', keyOf(secret)).update(prefix).update(message.body).digest('base64')
  return secrets.map((secret) => `v1,${sign(secret)}`).join(' ')
}

/** Parsed keys: parsing takes six times as long as a signature. */
const keyOf = memoize(4096, (secret) =>
  createSecretKey(Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')),
)

/** How long the old key still signs after a rotation that does not expire it. */
export const OVERLAP_SECONDS = 86_400
export const MAX_ACTIVE_KEYS = 5

/** Times are ISO 8601. The newest key does not expire. */
export type SigningKey = {
  secret: string
  createdAt: string
  expiresAt?: string | undefined
  /** The request that created it, so that a repeat after a crash creates no second one. */
  request?: string | undefined
  /** Created while `spec.signingSecret` was set: may be written to that Secret. */
  shared?: boolean | undefined
}

/** Keys that sign at `now`, newest first. */
export function activeKeys(keys: readonly SigningKey[], now: number): SigningKey[] {
  return keys.filter((key) => key.expiresAt === undefined || Date.parse(key.expiresAt) > now)
}

export type RollRequest = {
  secret: string
  expireOld: boolean
  request?: string | undefined
  shared: boolean
}

export type RollResult = { kind: 'rolled'; keys: SigningKey[] } | { kind: 'repeated' } | { kind: 'tooMany' }

/**
 * The keys after a rotation: the new one first; earlier ones expire at once or at the end of their own overlap.
 * `repeated` if the request was handled before, `tooMany` if five keys are active.
 */
export function rollKeys(keys: readonly SigningKey[], roll: RollRequest, now: number): RollResult {
  if (roll.request !== undefined && keys.some((key) => key.request === roll.request))
    return { kind: 'repeated' }
  const active = roll.expireOld ? [] : activeKeys(keys, now)
  if (active.length >= MAX_ACTIVE_KEYS) return { kind: 'tooMany' }
  const overlapEnd = new Date(now + OVERLAP_SECONDS * 1000).toISOString()
  const { secret, request, shared } = roll
  const fresh = { secret, createdAt: new Date(now).toISOString(), request, ...(shared && { shared }) }
  return {
    kind: 'rolled',
    keys: [fresh, ...active.map((key) => ({ ...key, expiresAt: key.expiresAt ?? overlapEnd }))],
  }
}

/**
 * The keys without rotations whose secrets were never disclosed: the newest disclosed key no longer expires because of
 * them. An expired key stays expired.
 */
export function withoutUnseen(
  keys: readonly SigningKey[],
  isUnseen: (key: SigningKey) => boolean,
  now: number,
): SigningKey[] {
  if (!keys.some(isUnseen)) return [...keys]
  const [newest, ...older] = activeKeys(keys, now).filter((key) => !isUnseen(key))
  if (!newest) return []
  const { expiresAt: _, ...endless } = newest
  return [endless, ...older]
}

/** For the endpoint's status: never the keys themselves. */
export function keysInStatus(keys: readonly SigningKey[], now: number) {
  return activeKeys(keys, now).map((key) => ({
    fingerprint: fingerprintOf(key.secret),
    createdAt: key.createdAt,
    ...(key.expiresAt === undefined ? {} : { expiresAt: key.expiresAt }),
  }))
}
