/**
 * Keyed hashes under the key of the installation. Whoever reads the log can neither try Idempotency-Keys against it
 * nor guess what was asked for.
 */
import { createHmac } from 'node:crypto'
import { encodeBase32 } from './text.ts'

/** 130 bits. */
const CHARACTERS = 26

/** A key of its own for one purpose, so that hashes made for one never fit another. */
export function deriveKey(purpose: string, installationKey: Uint8Array): Uint8Array {
  return createHmac('sha256', installationKey).update(purpose).digest()
}

/** 26 characters that stand for `parts`, in their order; no other parts give the same. */
export function keyedHash(key: Uint8Array, parts: readonly string[]): string {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(`${Buffer.byteLength(part)}:`).update(part)
  return encodeBase32(hmac.digest(), CHARACTERS)
}
