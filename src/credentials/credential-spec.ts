/** What of a credential's spec the API server cannot check. */

import { parseEcrHost } from '../apis/ecr-host.ts'
import type { CredentialStall, RegistryCredentialSpec } from '../apis/registry-credential.ts'
import { parseRegistryHost } from '../apis/registry-host.ts'
import { registryUsernameProblem } from './registry-username.ts'

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
