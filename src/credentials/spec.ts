/** What the API server cannot check in the spec of a registry credential: the host and the user name. */
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
  if (codePoints(username) > MAX_USERNAME) return `must be at most ${MAX_USERNAME} characters`
  if (username.includes(':'))
    return 'must not contain a colon, because the text after it would become part of the secret'
  if (/\p{Cc}/u.test(username)) return 'must not contain control characters'
  return undefined
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
  if (problem !== undefined) return { field: 'registry', reason: 'InvalidRegistry', message: problem }
  if (type === 'token') {
    const message = registryUsernameProblem(username ?? '')
    return message === undefined ? undefined : { field: 'username', reason: 'InvalidUsername', message }
  }
  const message = parseEcrHost(host).problem
  return message === undefined ? undefined : { field: 'registry', reason: 'InvalidRegistry', message }
}

/** For a spec that works, but not for long. */
export function credentialWarning({ type, registry }: Spec): string | undefined {
  const { host } = parseRegistryHost(registry)
  if (type !== 'token' || host === undefined || !parseEcrHost(host).ecr) return undefined
  return 'This is an ECR registry, and ECR tokens expire after 12 hours. Use a credential of type ecr: it stores no token, and the box requests a new one for each pull.'
}
