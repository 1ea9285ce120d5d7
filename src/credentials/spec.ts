/** What the API server cannot check in a registry credential: the host, the user name and the secret. */
import { codePoints } from '../apis/meta.ts'
import {
  type CredentialStall,
  MAX_USERNAME,
  PENDING_FIELDS_ANNOTATION,
  type RegistryCredentialSpec,
} from '../apis/registry-credential.ts'
import { parseEcrHost, parseRegistryHost } from '../apis/registry-host.ts'

/** A login sends user name and secret with a colon between them. @returns the problem, in words that follow "username" */
export function registryUsernameProblem(username: string): string | undefined {
  if (username === '') return 'must not be empty'
  if (codePoints(username) > MAX_USERNAME) return `must have at most ${MAX_USERNAME} characters`
  if (username.includes(':')) return 'must not have a colon: what follows it would be taken for the secret'
  if (/\p{Cc}/u.test(username)) return 'must not have control characters'
  return undefined
}

/** Most bytes of a standard parameter. */
const MAX_BYTES = 4096

/**
 * Why the parameter store would refuse a secret, or a login would alter it.
 * @param value the secret, or its bytes as a Secret has them
 * @returns the problem, in words that follow "the secret" and never quote it
 */
export function registrySecretProblem(value: string | Uint8Array): string | undefined {
  const text = typeof value === 'string' ? value : decodeUtf8(value)
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

export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * Whether the newest version of the secret belongs to fields that are not written yet. A REST request may change the secret and other
 * fields, which are two writes in two places; the secret comes first and is not used until the fields are there.
 */
export function hasPendingFields(metadata: {
  annotations?: Readonly<Record<string, string>> | undefined
}): boolean {
  return metadata.annotations?.[PENDING_FIELDS_ANNOTATION] !== undefined
}

type Spec = Pick<RegistryCredentialSpec, 'type' | 'registry' | 'username'>
export type SpecProblem = { field: 'registry' | 'username'; reason: CredentialStall; message: string }

/** The first problem, for a condition or a REST response; `message` follows the name of the field. */
export function credentialSpecProblem({ type, registry, username }: Spec): SpecProblem | undefined {
  const { host, problem } = parseRegistryHost(registry)
  if (problem !== undefined) return { field: 'registry', reason: 'RegistryRefused', message: problem }
  if (type === 'token') {
    const message = registryUsernameProblem(username ?? '')
    return message === undefined ? undefined : { field: 'username', reason: 'UsernameRefused', message }
  }
  const message = parseEcrHost(host).problem
  return message === undefined ? undefined : { field: 'registry', reason: 'RegistryRefused', message }
}

/** For a spec that works, but not for long. */
export function credentialWarning({ type, registry }: Spec): string | undefined {
  const { host } = parseRegistryHost(registry)
  if (type !== 'token' || host === undefined || !parseEcrHost(host).ecr) return undefined
  return 'The registry is ECR, whose tokens end after 12 hours; a credential of the type ecr needs none.'
}
