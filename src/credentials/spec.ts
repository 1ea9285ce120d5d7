import { codePoints } from '../apis/meta.ts'
import {
  type CredentialStall,
  MAX_USERNAME,
  PENDING_FIELDS_ANNOTATION,
  type RegistryCredentialSpec,
} from '../apis/registry-credential.ts'
import { parseEcrHost, parseRegistryHost } from '../apis/registry-host.ts'

/** What a registry's user name must be: a login sends it and the secret with a colon between. */

/** @returns what is wrong, in words that follow "username" */
export function registryUsernameProblem(username: string): string | undefined {
  if (username === '') return 'must not be empty'
  if (codePoints(username) > MAX_USERNAME) return `must have at most ${MAX_USERNAME} characters`
  if (username.includes(':')) return 'must not have a colon: what follows it would be taken for the secret'
  if (/\p{Cc}/u.test(username)) return 'must not have control characters'
  return undefined
}

/** What a registry's secret must be, so that the parameter store takes it and a login sends it as it is. */

/** Most bytes of a standard parameter. */
const MAX_BYTES = 4096

/**
 * @param value the secret, or its bytes as a Secret has them
 * @returns what is wrong, in words that follow "the secret"; no part of it is ever in them
 */
export function registrySecretProblem(value: string | Uint8Array): string | undefined {
  const text = typeof value === 'string' ? value : decoded(value)
  if (text === '') return 'is empty'
  if (text === undefined || !text.isWellFormed()) return 'is not text in UTF-8'
  if (Buffer.byteLength(text) > MAX_BYTES)
    return `has more than ${MAX_BYTES} bytes, which is the most that is stored`
  if (text !== text.trim())
    return 'begins or ends with white space or a line end, which a login leaves out; store it without (printf, not echo)'
  if (/\p{Cc}/u.test(text))
    return 'has a line end or another control character in it, which a login leaves out'
  if (text.includes('{{') || text.includes('}}'))
    return 'has {{ or }} in it, which the parameter store does not take'
  return undefined
}

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * A request by REST may change the secret and other fields of a credential, which are two writes in two places. The secret comes
 * first, and nobody uses it until the fields are there: a box has both, or neither.
 */

/** Whether the newest version of the secret is one whose fields were not written: what was recorded stays in use. */
export function hasPendingFields({
  annotations,
}: {
  annotations?: Readonly<Record<string, string>> | undefined
}): boolean {
  return annotations?.[PENDING_FIELDS_ANNOTATION] !== undefined
}

/** What of a credential's spec the API server cannot check. */

type Spec = Pick<RegistryCredentialSpec, 'type' | 'registry' | 'username'>
export type SpecProblem = { field: 'registry' | 'username'; reason: CredentialStall; message: string }

/** The first thing that is wrong, for a condition or an answer of the REST API (`message` follows the name of the field). */
export function credentialSpecProblem({ type, registry, username }: Spec): SpecProblem | undefined {
  const { host, problem } = parseRegistryHost(registry)
  if (problem !== undefined) return { field: 'registry', reason: 'RegistryRefused', message: problem }
  if (type === 'token') {
    const wrong = registryUsernameProblem(username ?? '')
    return wrong === undefined ? undefined : { field: 'username', reason: 'UsernameRefused', message: wrong }
  }
  const ecr = parseEcrHost(host)
  return ecr.problem === undefined
    ? undefined
    : { field: 'registry', reason: 'RegistryRefused', message: ecr.problem }
}

/** What works, and not for long. */
export function credentialWarning({ type, registry }: Spec): string | undefined {
  const { host } = parseRegistryHost(registry)
  if (type !== 'token' || host === undefined || !parseEcrHost(host).ecr) return undefined
  return 'The registry is ECR, whose tokens end after 12 hours; a credential of the type ecr needs none.'
}
