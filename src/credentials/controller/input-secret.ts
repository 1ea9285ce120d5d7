import { type Secret, secret, secrets } from '../../apis/core-kinds.ts'
import {
  REGISTRY_SECRET_KEY,
  REGISTRY_SECRET_TYPE,
  RETAIN_ANNOTATION,
} from '../../apis/registry-credential.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { SecretText } from '../../lib/redact.ts'
import { deriveKey, keyedHash } from '../../lib/text.ts'
import { registrySecretProblem } from '../spec.ts'
import type { InputSecretFacts, InputSecretRef, StoredInputSecret } from './facts.ts'

/**
 * A mark that stands for the value of a retained hand-over Secret, so that a change of its labels is no new secret. It is kept in the
 * status, which more people read than Secrets: without the key of the installation nobody can try values against it, and the
 * same value has another mark in another Secret, and in another version of the same one.
 */

/** `resourceVersion`: of the Secret, as it is recorded beside the mark. */
export type MarkInput = { credentialUid: string; secretUid: string; resourceVersion: string; value: string }

export function inputSecretMark(installationKey: Uint8Array, of: MarkInput): string {
  const key = deriveKey('handover-value', installationKey)
  return keyedHash(key, [of.credentialUid, of.secretUid, of.resourceVersion, of.value])
}

/** The Secret with which an owner hands a registry's secret over, and what may be read of it. */

/** What was found, and the value where it can be stored. */
export type FoundInputSecret = { facts: InputSecretFacts; value?: SecretText }

/** What was stored last, and the mark of a value (handover-mark.ts). */
export type KnownInputSecret = {
  stored: StoredInputSecret | undefined
  markOf: (of: Omit<MarkInput, 'credentialUid'>) => string
}

/** @throws ApiError but NotFound and Forbidden */
export async function readInputSecret(
  resources: ResourceReader,
  ref: { namespace: string; name: string | undefined },
  known: KnownInputSecret,
): Promise<FoundInputSecret> {
  const { namespace, name } = ref
  if (name === undefined) return { facts: { state: 'none' } }
  try {
    return factsOf(secret.parse(await resources.get(secrets, { namespace, name })), known)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { facts: { state: 'missing' } }
    if (isApiError(error, 'Forbidden')) return { facts: { state: 'forbidden' } }
    throw error
  }
}

function factsOf({ metadata, type = 'Opaque', data }: Secret, known: KnownInputSecret): FoundInputSecret {
  // The type is the owner's consent: of another one nothing is looked at.
  if (type !== REGISTRY_SECRET_TYPE) return { facts: { state: 'wrong-type', type } }
  if (metadata.deletionTimestamp !== undefined) return { facts: { state: 'missing' } }
  const encoded = data?.[REGISTRY_SECRET_KEY]
  if (encoded === undefined) return { facts: { state: 'no-key' } }
  const value = textOf(encoded)
  if (value === undefined) return { facts: { state: 'problem', problem: 'is not text in UTF-8' } }
  const problem = registrySecretProblem(value)
  if (problem !== undefined) return { facts: { state: 'problem', problem } }
  const retained = metadata.annotations?.[RETAIN_ANNOTATION] === 'true'
  const { uid, resourceVersion } = metadata
  const mark = known.markOf({ secretUid: uid, resourceVersion, value })
  const isSameValue = hasMark(known, { secretUid: uid, value })
  const facts = { state: 'usable', uid, resourceVersion, retained, mark, isSameValue } as const
  return { facts, value: new SecretText(value) }
}

/** The mark is of the version that is recorded beside it. */
function hasMark({ stored, markOf }: KnownInputSecret, of: { secretUid: string; value: string }): boolean {
  if (stored?.mark === undefined || stored.uid !== of.secretUid) return false
  return markOf({ ...of, resourceVersion: stored.resourceVersion }) === stored.mark
}

function textOf(base64: string): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(base64, 'base64'))
  } catch {
    return undefined
  }
}

/** The very object whose value was stored; one that was changed meanwhile stays. @throws ApiError */
export async function deleteInputSecret(
  resources: ResourceWriter,
  ref: { namespace: string; name: string },
  { uid, resourceVersion }: InputSecretRef,
): Promise<void> {
  try {
    await resources.delete(secrets, ref, { uid, resourceVersion })
  } catch (error) {
    if (!isApiError(error, 'NotFound', 'Conflict')) throw error
  }
}
