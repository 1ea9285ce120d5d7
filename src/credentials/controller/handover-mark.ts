/**
 * A mark that stands for the value of a retained hand-over Secret, so that a change of its labels is no new secret. It is kept in the
 * status, which more people read than Secrets: without the key of the installation nobody can try values against it, and the
 * same value has another mark in another Secret, and in another version of the same one.
 */
import { deriveKey, keyedHash } from '../../lib/key-hash.ts'

/** `resourceVersion`: of the Secret, as it is recorded beside the mark. */
export type MarkInput = { credentialUid: string; secretUid: string; resourceVersion: string; value: string }

export function inputSecretMark(installationKey: Uint8Array, of: MarkInput): string {
  const key = deriveKey('handover-value', installationKey)
  return keyedHash(key, [of.credentialUid, of.secretUid, of.resourceVersion, of.value])
}
