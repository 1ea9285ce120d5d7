/** The Secret in which an owner provides a registry's secret: what may be read of it, and how its value is recognized later. */
import { lastWriterOf } from '../../apis/annotations.ts'
import { type Secret, secret, secrets } from '../../apis/core-kinds.ts'
import {
  REGISTRY_SECRET_KEY,
  REGISTRY_SECRET_TYPE,
  RETAIN_ANNOTATION,
} from '../../apis/registry-credential.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { SecretText } from '../../lib/redact.ts'
import { deriveKey, keyedHash, sanitizeText } from '../../lib/text.ts'
import { parseRegistrySecret } from '../registry-secret.ts'
import type { InputSecretFacts, InputSecretRef } from './input-secret-plan.ts'

/** `resourceVersion`: of the Secret, as it is recorded next to the mark. */
export type MarkInput = { credentialUid: string; secretUid: string; resourceVersion: string; value: string }
type MarkOf = (of: Omit<MarkInput, 'credentialUid'>) => string

/**
 * A mark that stands for the value of an input Secret, so that a change of its labels, or the same Secret created again, is no new
 * secret. It is kept in the status, which more people can read than Secrets: values cannot be tried against it without the installation
 * key, and the same value has another mark in another Secret, and in another version of the same one.
 */
export function inputSecretMark(installationKey: Uint8Array, of: MarkInput): string {
  const key = deriveKey('handover-value', installationKey)
  return keyedHash(key, [of.credentialUid, of.secretUid, of.resourceVersion, of.value])
}

/** Of a kind and a name in a message. */
const MAX_OWNER = 320

/** `value`: only if it can be stored. */
export type FoundInputSecret = { facts: InputSecretFacts; value?: SecretText }

/** @param stored what was stored last @throws ApiError except NotFound and Forbidden */
export async function readInputSecret(
  resources: ResourceReader,
  { namespace, name }: { namespace: string; name: string | undefined },
  stored: InputSecretRef | undefined,
  markOf: MarkOf,
): Promise<FoundInputSecret> {
  if (name === undefined) return { facts: { state: 'none' } }
  try {
    return examine(secret.parse(await resources.get(secrets, { namespace, name })), stored, markOf)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { facts: { state: 'missing' } }
    if (isApiError(error, 'Forbidden')) return { facts: { state: 'forbidden' } }
    throw error
  }
}

function examine(
  { metadata, type = 'Opaque', data }: Secret,
  stored: InputSecretRef | undefined,
  markOf: MarkOf,
): FoundInputSecret {
  // The type is the owner's consent: nothing is read of a Secret with another one.
  if (type !== REGISTRY_SECRET_TYPE) return { facts: { state: 'wrong-type', type } }
  if (metadata.deletionTimestamp !== undefined) return { facts: { state: 'missing' } }
  const encoded = data?.[REGISTRY_SECRET_KEY]
  if (encoded === undefined) return { facts: { state: 'no-key' } }
  // The value as it is stored: a document in another layout is the same secret.
  const { secret: value, problem } = parseRegistrySecret(Buffer.from(encoded, 'base64'))
  if (problem !== undefined) return { facts: { state: 'problem', problem } }
  const retained = metadata.annotations?.[RETAIN_ANNOTATION] === 'true'
  const { uid, resourceVersion } = metadata
  const mark = markOf({ secretUid: uid, resourceVersion, value })
  // The stored mark is of the Secret and the version that are recorded next to it.
  const isSameValue =
    stored?.mark !== undefined &&
    markOf({ secretUid: stored.uid, resourceVersion: stored.resourceVersion, value }) === stored.mark
  const owner = controllerOf(metadata)
  const writer = lastWriterOf(metadata.managedFields, 'data')
  const facts = {
    state: 'usable',
    ...{ uid, resourceVersion, retained, mark, isSameValue },
    createdAt: Date.parse(metadata.creationTimestamp ?? '') || 0,
    ...(owner === undefined ? {} : { owner }),
    ...(writer === undefined ? {} : { writer }),
  } as const
  return { facts, value: new SecretText(value) }
}

/** Kind and name of the object whose controller made the Secret and would make it again. */
function controllerOf({ ownerReferences = [] }: Secret['metadata']): string | undefined {
  const owner = ownerReferences.find(({ controller }) => controller === true)
  return owner && sanitizeText(`${owner.kind} ${owner.name}`, MAX_OWNER)
}

/** Deletes the version whose value was stored; one that has changed since stays. @throws ApiError */
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
