import { createHash, createHmac, createSecretKey } from 'node:crypto'
import { SECRET_PREFIX } from '../../apis/ids.ts'
import { memoize } from '../../lib/memoize.ts'

/** Signatures of webhooks: Standard Webhooks, scheme `v1` (interface §5.5). key-rotation.ts decides which keys sign. */

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
