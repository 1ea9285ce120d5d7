/** Compares both sides: the cluster, the accounts, and the requests of owners. */

import { configMaps, secrets } from '../../../src/apis/core-kinds.ts'
import {
  type FailedDeletionRecord,
  failedDeletionRecord,
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../../src/apis/registry-credential.ts'
import { FAILED_DELETIONS_NAME } from '../../../src/credentials/controller/failed-deletions.ts'
import { isApiError } from '../../../src/kube/client.ts'
import type { KubernetesClient } from '../../../src/kube/resources.ts'
import type { Account } from '../../../test-support/aws/account.ts'
import type { AwsEmulator } from '../../../test-support/aws/aws-emulator.ts'
import type { ChaosOwner, Wanted } from './chaos-owner.ts'
import { REGIONS } from './setting.ts'

export type CredentialEvidence = {
  owners: readonly ChaosOwner[]
  credentials: readonly RegistryCredential[]
  /** `<organization>/<name>` of input Secrets. */
  secrets: ReadonlySet<string>
  failedDeletions: readonly FailedDeletionRecord[]
  parameters: readonly ParameterFound[]
}

/** A parameter in the AWS emulator. */
export type ParameterFound = {
  account: string
  region: string
  name: string
  versions: number
  value: string | undefined
  organization: string | undefined
}

export async function readCredentials(api: KubernetesClient): Promise<RegistryCredential[]> {
  const { items } = await api.list(registryCredentials, { limit: 5000 })
  return items.map((raw) => registryCredential.parse(raw))
}

export async function readFailedDeletions(
  api: KubernetesClient,
  namespace: string,
): Promise<FailedDeletionRecord[]> {
  try {
    const { data = {} } = (await api.get(configMaps, { namespace, name: FAILED_DELETIONS_NAME })) as {
      data?: object
    }
    return Object.values(data).map((text) => failedDeletionRecord.parse(JSON.parse(String(text))))
  } catch (error) {
    if (isApiError(error, 'NotFound')) return []
    throw error
  }
}

export async function readSecretNames(api: KubernetesClient): Promise<Set<string>> {
  const { items } = await api.list(secrets, { fieldSelector: 'type=davit.dev/registry-secret', limit: 5000 })
  return new Set(items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))
}

export function readParameters(accounts: readonly Account[]): ParameterFound[] {
  return accounts.flatMap((account) =>
    REGIONS.flatMap((region) => {
      const store = account.parameters(region)
      return store.list().map(({ name }) => {
        const held = store.get(name)
        return {
          account: account.id,
          region,
          name,
          versions: held?.versions.at(-1)?.version ?? 0,
          value: store.value(name),
          organization: held?.tags.get('davit.dev/organization'),
        }
      })
    }),
  )
}

export function isReady({ metadata, status }: RegistryCredential): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  return ready?.status === 'True' && status?.observedGeneration === metadata.generation
}

export function reasonOf({ status }: RegistryCredential): string {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.reason ?? ''
}

/** Describes the violations. */
export function judgeCredentials(evidence: CredentialEvidence): string[] {
  return [
    ...evidence.owners.flatMap((owner) => owner.wrong),
    ...evidence.owners.flatMap((owner) =>
      [...owner.wanted].flatMap(([name, wanted]) =>
        judgeWanted(evidence, `${owner.organization}/${name}`, wanted),
      ),
    ),
    ...judgeUnwanted(evidence),
    ...judgeParameters(evidence),
  ]
}

function judgeWanted(evidence: CredentialEvidence, key: string, wanted: Wanted): string[] {
  const credential = evidence.credentials.find((one) => keyOf(one) === key)
  if (!credential) return [`${key} is not there`]
  if (!isReady(credential)) {
    const reason = reasonOf(credential)
    return wanted.mayBeLost && reason === 'AccountChanged' ? [] : [`${key} is not Ready: ${reason}`]
  }
  const found = evidence.parameters.find((one) => isAt(one, credential.status?.parameter))
  if (!found) return [`${key} is Ready without its parameter`]
  const { version } = credential.status?.parameter ?? {}
  const hasSecret = evidence.secrets.has(key)
  return [
    ...(found.versions === version ? [] : [`${key} pins version ${version} of ${found.versions}`]),
    ...(found.value === wanted.value ? [] : [`${key} has ${found.value} and not ${wanted.value}`]),
    ...(hasSecret && !wanted.retained ? [`the Secret of ${key} is stored and still there`] : []),
    ...(!hasSecret && wanted.retained ? [`the Secret of ${key} is to stay and is gone`] : []),
  ]
}

function judgeUnwanted({ owners, credentials }: CredentialEvidence): string[] {
  const wanted = new Set(
    owners.flatMap(({ organization, wanted: of }) => [...of.keys()].map((name) => `${organization}/${name}`)),
  )
  return credentials
    .map(keyOf)
    .filter((key) => !wanted.has(key))
    .map((key) => `${key} is still there`)
}

function judgeParameters({ parameters, credentials, failedDeletions }: CredentialEvidence): string[] {
  return parameters.flatMap((found) => {
    const isKnown =
      credentials.some(({ status }) => isAt(found, status?.parameter)) ||
      failedDeletions.some((one) => isAt(found, one))
    const isElsewhere = !found.name.startsWith(`/davit/${found.organization}/`)
    const where = `${found.name} in ${found.account} ${found.region}`
    return [
      ...(isKnown ? [] : [`${where} is nobody's`]),
      ...(isElsewhere ? [`${where} is of ${found.organization}`] : []),
    ]
  })
}

/** Each call must use the session of the organization that owns the parameter. */
export function judgeCalls({ trail }: AwsEmulator): string[] {
  return trail.entries({}).flatMap(({ service, operation, session, parameters, error }) => {
    const name = String(parameters.Name ?? parameters.ResourceId ?? '')
    if (service !== 'ssm' || name === '') return []
    const organization = session?.tags['davit.dev/organization']
    const isOwn = organization !== undefined && name.startsWith(`/davit/${organization}/`)
    return isOwn && error?.code !== 'NotInTheDouble' ? [] : [`${operation} of ${name} by ${organization}`]
  })
}

function keyOf({ metadata }: RegistryCredential): string {
  return `${metadata.namespace}/${metadata.name}`
}

type At = { name: string; account: string; region: string }

function isAt(found: At, at: At | undefined): boolean {
  return at?.name === found.name && at.account === found.account && at.region === found.region
}
