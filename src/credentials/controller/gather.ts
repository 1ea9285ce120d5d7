/** Gathers the facts that the plan of a credential decides on: from the cluster, the last listing of the account and the pass so far. */
import { createdAtOf, hasGeneratedName } from '../../apis/ids.ts'
import { API_VERSION } from '../../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  type RegistryCredential,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import {
  type ConnectedAccount,
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../../apis/secrets-settings.ts'
import { findObject, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { type MutationCache, ObjectWriter } from '../../kube/mutation-cache.ts'
import { notAnOrganization, type Organizations } from '../../kube/organizations.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import type { Logger } from '../../lib/log.ts'
import type { CredentialMetrics } from '../../lib/metrics.ts'
import type { KeyedMutex } from '../../lib/semaphore.ts'
import type { Clock } from '../../lib/time.ts'
import type { AccountListings, Listing } from '../accounts/garbage.ts'
import type { AccountAccess } from '../accounts/identity.ts'
import { testedAccount } from '../accounts/plan.ts'
import { parameterName, parseRoleArn } from '../aws/names.ts'
import { sessionArn } from '../aws/policies.ts'
import type { ListedParameter, ParameterListing, ParameterStore } from '../cloud.ts'
import { credentialSpecProblem, hasPendingFields } from '../spec.ts'
import type { FailedDeletions } from './failed-deletions.ts'
import { type FoundInputSecret, type MarkInput, readInputSecret } from './input-secret.ts'
import type { InputSecretFacts } from './input-secret-plan.ts'
import {
  type AccountFacts,
  type CredentialFacts,
  type ListingFacts,
  type ParameterLocation,
  parameterDrift,
  type ReconcileFacts,
  VISIBLE_AFTER_MS,
} from './plan.ts'

export type CredentialContext = {
  resources: ResourceReader & ResourceWriter
  cloud: ParameterStore & ParameterListing
  book: MutationCache<RegistryCredential>
  writer: ObjectWriter<RegistryCredential>
  organizations: Organizations
  accounts: AccountAccess
  listings: AccountListings
  failedDeletions: FailedDeletions
  /** Held by everything that touches the parameter of `<organization>/<credential>`. */
  mutex: KeyedMutex
  prefix: string
  /** Stands for the value of an input Secret (inputSecretMark). */
  markOf: (of: MarkInput) => string
  events: EventRecorder
  metrics: CredentialMetrics
  clock: Clock
  log: Logger
}

export function createCredentialWriter(
  resources: ResourceReader & ResourceWriter,
  cache: MutationCache<RegistryCredential>,
): ObjectWriter<RegistryCredential> {
  const decode = (raw: unknown) => registryCredential.parse(raw)
  return new ObjectWriter({ resources, type: registryCredentials, decode, cache })
}

export function credentialEventTarget({ metadata }: RegistryCredential) {
  return { apiVersion: API_VERSION, kind: registryCredentialKind.kind, metadata }
}

/** What a pass reads once. */
export type CredentialSources = { account: AccountFacts; inputSecret: FoundInputSecret }

/** What a pass over a credential has read and found out so far. */
export type PassState = {
  credential: RegistryCredential
  sources: CredentialSources
  pass: ReconcileFacts
  moved: boolean
}

/** @throws ApiError */
export async function readSources(
  { resources, prefix, markOf }: CredentialContext,
  { metadata, spec, status }: RegistryCredential,
): Promise<CredentialSources> {
  const namespace = metadata.namespace ?? ''
  const parameter = parameterName({ prefix, organization: namespace, credential: metadata.name })
  const name = metadata.deletionTimestamp === undefined ? spec.secretRef?.name : undefined
  const [account, inputSecret] = await Promise.all([
    readAccountFacts(resources, namespace, parameter),
    readInputSecret(resources, { namespace, name }, status?.handover, (of) =>
      markOf({ ...of, credentialUid: metadata.uid }),
    ),
  ])
  return { account, inputSecret }
}

/**
 * What the organization's SecretsSettings mean for a credential. Read live: with a lagging watch, a secret could be removed, or put
 * where it does not belong.
 * @param parameter name of the credential's parameter @throws ApiError
 */
export async function readAccountFacts(
  resources: ResourceReader,
  organization: string,
  parameter: string,
): Promise<AccountFacts> {
  const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
  const found = await findObject(resources, secretsSettingsResource, ref)
  return found ? accountFacts(secretsSettings.parse(found), parameter) : { state: 'missing' }
}

function accountFacts(settings: SecretsSettings, parameter: string): AccountFacts {
  const { metadata, status } = settings
  const before = locationIn(status?.connected, parameter)
  const known = before ? { location: before } : {}
  if (metadata.deletionTimestamp !== undefined) return { state: 'missing', ...known }
  const isCurrent = status?.observedGeneration === metadata.generation
  const conditionIfTrue = (type: string) =>
    status?.conditions?.find((each) => isCurrent && each.type === type && each.status === 'True')
  const location = locationIn(testedAccount(settings), parameter)
  if (conditionIfTrue('Ready') && location) return { state: 'ready', location }
  const stalled = conditionIfTrue('Stalled')
  if (stalled)
    return {
      state: 'stalled',
      message: `The SecretsSettings object is not ready (${stalled.reason}). ${stalled.message}`,
      ...known,
    }
  return {
    state: 'connecting',
    message: 'Davit is testing the connection to the AWS account in the SecretsSettings.',
    ...known,
  }
}

function locationIn(account: ConnectedAccount | undefined, name: string): ParameterLocation | undefined {
  const id = account && parseRoleArn(account.roleArn)?.account
  if (account === undefined || id === undefined) return undefined
  const { roleArn, region, kmsKeyId } = account
  return { name, region, account: id, roleArn, kmsKeyId }
}

export function gatherFacts(
  context: CredentialContext,
  { credential, sources, pass, moved }: PassState,
): CredentialFacts {
  const { metadata, spec, status } = credential
  const { account, inputSecret } = sources
  const createdAt = Date.parse(createdAtOf(metadata))
  const generatedName = hasGeneratedName(metadata) && spec.secretRef === undefined
  const updatedAt = Date.parse(status?.updatedAt ?? '') || 0
  return {
    now: context.clock.now(),
    type: spec.type,
    createdAt,
    // Never, as long as no request can have stored anything.
    writtenAt: status?.parameter || generatedName ? Math.max(createdAt, updatedAt) : 0,
    generatedName,
    deletedAt: Date.parse(metadata.deletionTimestamp ?? '') || undefined,
    hasFinalizer: metadata.finalizers?.includes(PARAMETER_FINALIZER) ?? false,
    problem: problemOf(context, credential),
    account,
    secretName: spec.secretRef?.name,
    inputSecret: inputSecret.facts,
    sharedWith: sharedWith(context, credential, inputSecret.facts),
    stored: status?.parameter,
    storedInputSecret: status?.handover,
    hasPendingFields: hasPendingFields(metadata),
    moved,
    listing: listingFacts(context, credential, account),
    pass,
  }
}

/** Of several credentials that name one Secret, the oldest gets it; created in the same second, the first by name. */
function sharedWith(
  { book }: CredentialContext,
  { metadata, spec, status }: RegistryCredential,
  inputSecret: InputSecretFacts,
): string | undefined {
  const name = spec.secretRef?.name
  const isWanted = inputSecret.state === 'usable' || (inputSecret.state === 'missing' && !status?.parameter)
  if (name === undefined || !isWanted) return undefined
  const ageOf = (one: RegistryCredential['metadata']) => `${one.creationTimestamp ?? ''} ${one.name}`
  const [oldest] = book
    .in(metadata.namespace ?? '')
    .filter((other) => other.spec.secretRef?.name === name && other.metadata.deletionTimestamp === undefined)
    .map((other) => other.metadata)
    .filter((other) => other.name !== metadata.name && ageOf(other) < ageOf(metadata))
    .sort((a, b) => (ageOf(a) < ageOf(b) ? -1 : 1))
  return oldest?.name
}

function problemOf({ organizations }: CredentialContext, { metadata, spec }: RegistryCredential) {
  const namespace = metadata.namespace ?? ''
  if (!organizations.get(namespace)) return notAnOrganization(namespace)
  const problem = credentialSpecProblem(spec)
  return problem && { reason: problem.reason, message: `spec.${problem.field} ${problem.message}.` }
}

/** What the last usable listing of the account says about this credential. */
export function listingFacts(
  { listings }: Pick<CredentialContext, 'listings'>,
  { metadata, status }: RegistryCredential,
  account: AccountFacts,
): ListingFacts {
  const organization = metadata.namespace ?? ''
  const stored = status?.parameter
  const { location } = account
  if (account.state === 'missing' || !location) return { state: 'unknown' }
  const { name, region, roleArn } = location
  const listing = listings.lastListing({ organization, region, roleArn })
  if (!listing || (stored && (stored.account !== location.account || stored.region !== region)))
    return { state: 'unknown' }
  const listed = listing.parameters.get(name)
  if (!stored)
    return unrecorded(listing, listed, createdAtOf(metadata), sessionArn({ roleArn, organization }))
  const storedAt = Date.parse(status?.updatedAt ?? metadata.creationTimestamp ?? '') || 0
  // An older listing shows what was there before, not a change to what is there now.
  if (listing.at <= storedAt) return { state: 'unknown' }
  const drift = parameterDrift({
    stored,
    listed,
    storedAt,
    listedAt: listing.at,
    ownSessions: [stored.roleArn, roleArn].map((arn) => sessionArn({ roleArn: arn, organization })),
  })
  return { state: 'recorded', drift, ...(listings.isStale(listing) ? { staleSince: listing.at } : {}) }
}

function unrecorded(
  listing: Listing,
  listed: ListedParameter | undefined,
  createdAt: string,
  ownSession: string,
): ListingFacts {
  if (listed) {
    const { version, type, modifiedBy: by } = listed
    return { state: 'unrecorded', found: { version, type, by, isOwnSession: by === ownSession } }
  }
  // A listing from before the credential says nothing about it, and one from soon after may not show its parameter yet.
  const isEarly = listing.at < Date.parse(createdAt) + VISIBLE_AFTER_MS
  return isEarly ? { state: 'unknown' } : { state: 'unrecorded', found: undefined }
}
