/** What of a request's fields no schema says (interface §2.1). */
import type { RegistryCredentialSpec } from '../apis/registry-credential.ts'
import { parseRegistryHost } from '../apis/registry-host.ts'
import { credentialSpecProblem } from '../credentials/credential-spec.ts'
import { registrySecretProblem } from '../credentials/spec.ts'
import type { SecretText } from '../lib/secret-text.ts'
import type { CredentialChange, CredentialDraft } from './credential-resource.ts'
import { RefusedError, type RefusedPlace } from './http/refused-error.ts'

type Spec = Pick<RegistryCredentialSpec, 'type' | 'label' | 'registry' | 'username'>

/** The spec of a draft, its registry in the one form. @throws RefusedError invalid */
export function specOf({ type, label, registry, username, secret }: CredentialDraft): Spec {
  const problem = credentialSpecProblem({ type, registry, username })
  const isMissing = type === 'token' && username === undefined
  refuse([
    ...(problem && !(isMissing && problem.field === 'username')
      ? [{ pointer: `/${problem.field}`, message: problem.message }]
      : []),
    ...requiredForToken(type, { username, secret }),
    ...onlyForToken(type, { username, secret }),
    ...secretPlaces(secret),
  ])
  const { host = registry } = parseRegistryHost(registry)
  return { type, label, registry: host, ...(username === undefined ? {} : { username }) }
}

/** @throws RefusedError invalid */
export function checkChange({ type, registry }: RegistryCredentialSpec, change: CredentialChange): void {
  const { username, secret } = change
  const problem = username === undefined ? undefined : credentialSpecProblem({ type, registry, username })
  refuse([
    ...onlyForToken(type, change),
    ...(type === 'token' && problem?.field === 'username'
      ? [{ pointer: '/username', message: problem.message }]
      : []),
    ...secretPlaces(secret),
  ])
}

type OfToken = { username?: string | undefined; secret?: SecretText | undefined }
const OF_TOKEN = ['username', 'secret'] as const

function requiredForToken(type: Spec['type'], given: OfToken): RefusedPlace[] {
  const missing = type === 'token' ? OF_TOKEN.filter((field) => given[field] === undefined) : []
  return missing.map((field) => ({ pointer: `/${field}`, message: 'is required for the type token' }))
}

function onlyForToken(type: Spec['type'], given: OfToken): RefusedPlace[] {
  const surplus = type === 'token' ? [] : OF_TOKEN.filter((field) => given[field] !== undefined)
  return surplus.map((field) => ({ pointer: `/${field}`, message: 'is only for the type token' }))
}

/** In words that never have any of it. */
function secretPlaces(secret: SecretText | undefined): RefusedPlace[] {
  const problem = secret && registrySecretProblem(secret.reveal())
  return problem === undefined ? [] : [{ pointer: '/secret', message: problem }]
}

function refuse(places: readonly RefusedPlace[]): void {
  if (places.length > 0) throw new RefusedError('invalid', { places })
}
