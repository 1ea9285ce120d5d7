/**
 * A controller with an AWS emulator and everything that the boxes of an organization need: credentials, the role of the box, a
 * claim.
 */

import type { BoxTemplate } from '../../src/apis/box-template.ts'
import { namespaces } from '../../src/apis/core-kinds.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { ABSENT_UNLESS_TRUE } from './conditions.ts'
import type { DavitOptions } from './davit.ts'
import { BAKE_ENV, JobStandIn } from './job-stand-in.ts'
import { isReady, SecretsBed } from './secrets-bed.ts'

export const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
const ROLE = 'arn:aws:iam::123456789012:role/box'

/** Services of a template, and the role of the one with a credential. */
export const DB = { name: 'db', kind: 'catalog', image: 'postgres:17' }
export const API = {
  name: 'api',
  kind: 'custom',
  image: `${ECR}/acme/api:1.4`,
  registryCredentialId: 'rc_ecr',
}
export const ROLE_OF_BOX = { instanceRole: { serviceAccountName: 'box' } }

export type BakingDavit = { secrets: SecretsBed; bed: JobStandIn }

/** Starts with `rc_ecr` and, with a stored secret, `rc_ghcr` ready. */
export async function startBakingDavit(topic: string, options: DavitOptions = {}): Promise<BakingDavit> {
  const env = { ...BAKE_ENV, ...options.env }
  const secrets = await SecretsBed.start(topic, { otherOrganization: true, ...options, env })
  const bed = new JobStandIn(secrets.davit.api, secrets.organization)
  await restrict(secrets.davit.api, secrets.organization)
  await secrets.connect()
  await bed.account('box', { 'eks.amazonaws.com/role-arn': ROLE })
  await bed.claim('boxes')
  await secrets.credential('ecr', { type: 'ecr', registry: ECR, username: undefined })
  await secrets.handOver('ghcr-handover', 'the-value-1')
  await secrets.credential('ghcr', { secretRef: { name: 'ghcr-handover' } })
  await secrets.credentialWhen('ecr', isReady)
  await secrets.credentialWhen('ghcr', isReady)
  return { secrets, bed }
}

/** Makes the API server enforce the `restricted` pod security standard in the namespace. */
async function restrict(api: KubernetesClient, name: string): Promise<void> {
  const labels = {
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/enforce-version': 'latest',
  }
  await api.patch(namespaces, { name }, { metadata: { labels } })
}

/** Whether the bake of a template is in this state. */
export function state(wanted: string) {
  return (template: BoxTemplate) => template.status?.bake?.state === wanted
}

/** Whether the bake failed with this code. */
export function code(wanted: string) {
  return (template: BoxTemplate) => template.status?.bake?.failure?.code === wanted
}

/** Status and reason by type, such as `True Baked`. */
export function conditionsOf({ status }: BoxTemplate): Record<string, string> {
  const entries = status?.conditions?.map(({ type, status: is, reason }) => [type, `${is} ${reason}`])
  return { ...ABSENT_UNLESS_TRUE, ...Object.fromEntries(entries ?? []) }
}
