/**
 * The external id of an organization: who asks AWS for its role must know it. Derived from the installation's key and the UID
 * of the namespace, so that nobody chooses it, facade and controller have the same, and it is there before any resource is.
 */
import { createHmac } from 'node:crypto'
import { deriveKey } from '../../lib/key-hash.ts'
import { encodeBase32 } from '../../lib/text.ts'

/** 160 bits. */
const CHARACTERS = 32

export function externalId(installationKey: Uint8Array, organizationUid: string): string {
  const digest = createHmac('sha256', deriveKey('external-id', installationKey))
    .update(organizationUid)
    .digest()
  return `davit-${encodeBase32(digest, CHARACTERS)}`
}
