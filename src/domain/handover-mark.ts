/**
 * A mark that stands for the value of a retained hand-over Secret, so that a change of its labels is no new secret. It is kept in the
 * status, which more people read than Secrets: without the key of the installation nobody can try values against it, and the
 * same value in two Secrets has two marks.
 */
import { keyedHash, keyFor } from './key-hash.ts'

export function handoverMark(
  installationKey: Uint8Array,
  of: { credentialUid: string; secretUid: string; value: string },
): string {
  return keyedHash(keyFor('handover-value', installationKey), [of.credentialUid, of.secretUid, of.value])
}
