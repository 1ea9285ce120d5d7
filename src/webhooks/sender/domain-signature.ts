/** Standard Webhooks signatures, scheme `v1` (interface §5.5). */
import { createHash, createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import { SECRET_PREFIX } from '../../apis/identifiers.ts'

/** Bytes of a signing key. 24 bytes are 32 characters of base64, without padding. */
export const KEY_BYTES = 24

/** `whsec_` and the key in base64. */
export function formatSecret(key: Uint8Array): string {
  return SECRET_PREFIX + Buffer.from(key).toString('base64')
}

/** First 16 hexadecimal digits of the SHA-256 of the secret's text: tells keys apart, reveals nothing. */
export function fingerprintOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex').slice(0, 16)
}

export type SignedMessage = {
  /** `msg_...` */
  id: string
  /** The exact bytes that are sent. */
  body: Uint8Array
  /** Time of the attempt, seconds since 1970. */
  timestamp: number
}

/**
 * Value of `webhook-signature`: one `v1,<base64>` per secret, separated by spaces, in the order given.
 * @param secrets `whsec_...`, at least one
 */
export function signatureHeader(message: SignedMessage, secrets: readonly string[]): string {
  const prefix = `${message.id}.${message.timestamp}.`
  return secrets
    .map((secret) => {
      return `v1,${createHmac('sha256', keyOf(secret)).update(prefix).update(message.body).digest('base64')}`
    })
    .join(' ')
}

/** Keys in the form that is signed with: making it takes six times as long as a signature. */
const keys = new Map<string, KeyObject>()
const MAX_KEYS = 4096

function keyOf(secret: string): KeyObject {
  const held = keys.get(secret)
  if (held) return held
  const key = createSecretKey(Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64'))
  // Starting over is rare and costs microseconds; an order of use would cost on every signature.
  if (keys.size >= MAX_KEYS) keys.clear()
  keys.set(secret, key)
  return key
}
