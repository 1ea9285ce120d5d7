/**
 * A request by REST may change the secret and other fields of a credential, which are two writes in two places. The secret comes
 * first, and nobody uses it until the fields are there: a box has both, or neither.
 */
import { PENDING_FIELDS_ANNOTATION } from '../apis/registry-credential.ts'

/** Whether the newest version of the secret is one whose fields were not written: what was recorded stays in use. */
export function hasPendingFields({
  annotations,
}: {
  annotations?: Readonly<Record<string, string>> | undefined
}): boolean {
  return annotations?.[PENDING_FIELDS_ANNOTATION] !== undefined
}
