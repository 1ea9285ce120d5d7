/** A controller beside a double of AWS, with what boxes of an organization need: credentials, the role of the box, a claim. */
import type { BoxTemplate } from '../../src/api/box-template.ts'
import { BAKE_ENV, BakeBed } from './bake-bed.ts'
import { isReady, SecretsBed } from './secrets-bed.ts'

export const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
const ROLE = 'arn:aws:iam::123456789012:role/box'

/** Services of a template, and the role that one with a credential needs. */
export const DB = { name: 'db', kind: 'catalog', image: 'postgres:17' }
export const API = {
  name: 'api',
  kind: 'custom',
  image: `${ECR}/acme/api:1.4`,
  registryCredentialId: 'rc_ecr',
}
export const ROLE_OF_BOX = { instanceRole: { serviceAccountName: 'box' } }

export type BoxBed = { secrets: SecretsBed; bed: BakeBed }

/** The credentials `rc_ecr` and, with a secret that is stored, `rc_ghcr` are ready. */
export async function startBoxBed(topic: string): Promise<BoxBed> {
  const secrets = await SecretsBed.start(topic, { env: BAKE_ENV, neighbour: true })
  const bed = new BakeBed(secrets.davit.api, secrets.organization)
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

/** Whether the bake of a template is in this state. */
export function state(wanted: string) {
  return (template: BoxTemplate) => template.status?.bake?.state === wanted
}

/** Whether it failed with this code. */
export function code(wanted: string) {
  return (template: BoxTemplate) => template.status?.bake?.failure?.code === wanted
}

/** `True Baked` and the like, by type. */
export function conditionsOf({ status }: BoxTemplate): Record<string, string> {
  return Object.fromEntries(
    status?.conditions?.map(({ type, status: is, reason }) => [type, `${is} ${reason}`]) ?? [],
  )
}
