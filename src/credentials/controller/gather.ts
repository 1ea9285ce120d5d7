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
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../../apis/secrets-settings.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { type MutationCache, ObjectWriter } from '../../kube/mutation-cache.ts'
import type { Organizations } from '../../kube/organizations.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { CredentialMetrics } from '../../lib/metrics.ts'
import type { KeyedMutex } from '../../lib/semaphore.ts'
import type { AccountListings, Listing } from '../accounts/garbage.ts'
import type { AccountAccess } from '../accounts/identity.ts'
import { connectedTo } from '../accounts/plan.ts'
import { parameterName, parseRoleArn } from '../aws/names.ts'
import { sessionArn } from '../aws/policies.ts'
import type { ListedParameter, ParameterListing, ParameterStore } from '../cloud.ts'
import { credentialSpecProblem, hasPendingFields } from '../spec.ts'
import {
  type AccountFacts,
  type CredentialFacts,
  type FoundParameter,
  type InputSecretFacts,
  type ListingFacts,
  type ParameterLocation,
  parameterDrift,
  type ReconcileFacts,
  VISIBLE_AFTER_MS,
} from './facts.ts'
import type { FailedDeletions } from './failed-deletions.ts'
import { type FoundInputSecret, type MarkInput, readInputSecret } from './input-secret.ts'

/** Writes of RegistryCredentials by their controller. */

export function credentialEventTarget({ metadata }: RegistryCredential) {
  return { apiVersion: API_VERSION, kind: registryCredentialKind.kind, metadata }
}

function hasParameterFinalizer({ metadata }: RegistryCredential): boolean {
  return metadata.finalizers?.includes(PARAMETER_FINALIZER) ?? false
}

export class CredentialWriter extends ObjectWriter<RegistryCredential> {
  constructor(resources: ResourceReader & ResourceWriter, book: MutationCache<RegistryCredential>) {
    super({
      resources,
      type: registryCredentials,
      decode: (raw) => registryCredential.parse(raw),
      cache: book,
    })
  }

  async addFinalizer(credential: RegistryCredential): Promise<RegistryCredential> {
    return await this.updateFinalizers(credential, [
      ...(credential.metadata.finalizers ?? []),
      PARAMETER_FINALIZER,
    ])
  }

  async removeFinalizer(credential: RegistryCredential): Promise<RegistryCredential> {
    const held = credential.metadata.finalizers ?? []
    return await this.updateFinalizers(
      credential,
      held.filter((name) => name !== PARAMETER_FINALIZER),
    )
  }
}

/** What the loop of credentials works with. */

export type CredentialContext = {
  resources: ResourceReader & ResourceWriter
  cloud: ParameterStore & ParameterListing
  book: MutationCache<RegistryCredential>
  writer: CredentialWriter
  organizations: Organizations
  accounts: AccountAccess
  listings: AccountListings
  failedDeletions: FailedDeletions
  /** By `<organization>/<credential>`: whoever touches its parameter. */
  mutex: KeyedMutex
  prefix: string
  /** Of the value of a hand-over Secret. */
  markOf: (of: MarkInput) => string
  events: EventRecorder
  metrics: CredentialMetrics
  clock: Clock
  log: Logger
}

/** What the SecretsSettings of an organization mean for its credentials. */

/**
 * Read live: a watch that is behind must not make a secret be removed, or be put where it does not belong.
 * @param name of the credential's parameter @throws ApiError
 */
export async function readAccountFacts(
  resources: ResourceReader,
  organization: string,
  name: string,
): Promise<AccountFacts> {
  try {
    const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
    return accountFacts(secretsSettings.parse(await resources.get(secretsSettingsResource, ref)), name)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { state: 'missing' }
    throw error
  }
}

export function accountFacts(settings: SecretsSettings, name: string): AccountFacts {
  const { metadata, status } = settings
  const before = status?.connected && placeFrom(status.connected, name)
  const known = before ? { place: before } : {}
  if (metadata.deletionTimestamp !== undefined) return { state: 'missing', ...known }
  const isCurrent = status?.observedGeneration === metadata.generation
  const condition = (type: string) => status?.conditions?.find((each) => each.type === type)
  const place = placeOf(settings, name)
  if (isCurrent && condition('Ready')?.status === 'True' && place) return { state: 'ready', place }
  const stalled = isCurrent && condition('Stalled')?.status === 'True' ? condition('Stalled') : undefined
  if (stalled)
    return { state: 'stalled', message: `SecretsSettings: ${stalled.reason}: ${stalled.message}`, ...known }
  return { state: 'connecting', message: 'The cloud account of SecretsSettings is being tried.', ...known }
}

function placeOf(settings: SecretsSettings, name: string): ParameterLocation | undefined {
  const wanted = connectedTo(settings)
  return wanted && placeFrom(wanted, name)
}

function placeFrom(
  { roleArn, region, kmsKeyId }: { roleArn: string; region: string; kmsKeyId?: string | undefined },
  name: string,
): ParameterLocation | undefined {
  const account = parseRoleArn(roleArn)?.account
  if (account === undefined) return undefined
  return { name, region, account, roleArn, ...(kmsKeyId === undefined ? {} : { kmsKeyId }) }
}

/** Everything that the next step of a credential is decided on. */

/** What a pass reads once. */
export type CredentialSources = { account: AccountFacts; inputSecret: FoundInputSecret }

/** @throws ApiError */
export async function readSources(
  { resources, prefix, markOf }: CredentialContext,
  { metadata, spec, status }: RegistryCredential,
): Promise<CredentialSources> {
  const namespace = metadata.namespace ?? ''
  const parameter = parameterName({ prefix, organization: namespace, credential: metadata.name })
  const isGoing = metadata.deletionTimestamp !== undefined
  const name = isGoing ? undefined : spec.secretRef?.name
  const [account, handover] = await Promise.all([
    readAccountFacts(resources, namespace, parameter),
    readInputSecret(
      resources,
      { namespace, name },
      { stored: status?.handover, markOf: (of) => markOf({ ...of, credentialUid: metadata.uid }) },
    ),
  ])
  return { account, inputSecret: handover }
}

export function gatherFacts(
  context: CredentialContext,
  credential: RegistryCredential,
  found: CredentialSources & { pass: ReconcileFacts; moved: boolean },
): CredentialFacts {
  const { metadata, spec, status } = credential
  const createdAt = Date.parse(createdAtOf(metadata))
  const ownName = hasGeneratedName(metadata) && spec.secretRef === undefined
  const updatedAt = Date.parse(status?.updatedAt ?? '') || 0
  return {
    now: context.clock.now(),
    type: spec.type,
    createdAt,
    // By nobody, as long as no request can have stored anything.
    writtenAt: status?.parameter || ownName ? Math.max(createdAt, updatedAt) : 0,
    generatedName: ownName,
    deletedAt: Date.parse(metadata.deletionTimestamp ?? '') || undefined,
    hasFinalizer: hasParameterFinalizer(credential),
    problem: problemOf(context, credential),
    account: found.account,
    secretName: spec.secretRef?.name,
    inputSecret: found.inputSecret.facts,
    sharedWith: sharedWith(context, credential, found.inputSecret.facts),
    stored: status?.parameter,
    storedInputSecret: status?.handover,
    hasPendingFields: hasPendingFields(metadata),
    moved: found.moved,
    listing: listingFacts(context, credential, found.account),
    pass: found.pass,
  }
}

/** Of credentials that name the same Secret the oldest takes it; of those of one second the first by name. */
function sharedWith(
  { book }: CredentialContext,
  { metadata, spec, status }: RegistryCredential,
  handover: InputSecretFacts,
): string | undefined {
  const name = spec.secretRef?.name
  const isWanted = handover.state === 'usable' || (handover.state === 'missing' && !status?.parameter)
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
  if (!organizations.get(namespace)) {
    const message = `The namespace ${namespace} is no organization: it lacks the label davit.dev/organization=true.`
    return { reason: 'NotAnOrganization' as const, message }
  }
  const problem = credentialSpecProblem(spec)
  return problem && { reason: problem.reason, message: `spec.${problem.field} ${problem.message}` }
}

/** What the last listing of the account that counts says of this credential. */
export function listingFacts(
  context: CredentialContext,
  { metadata, status }: RegistryCredential,
  account: AccountFacts,
): ListingFacts {
  const organization = metadata.namespace ?? ''
  const stored = status?.parameter
  const place = account.state === 'missing' ? undefined : account.place
  if (!place) return { state: 'unknown' }
  const listing = context.listings.lastListing({ organization, region: place.region, roleArn: place.roleArn })
  if (!listing || (stored && (stored.account !== place.account || stored.region !== place.region)))
    return { state: 'unknown' }
  const listed = listing.parameters.get(place.name)
  if (!stored) {
    const found = listed && foundIn(listed, sessionArn({ roleArn: place.roleArn, organization }))
    return unrecorded(listing, found, createdAtOf(metadata))
  }
  const storedAt = Date.parse(status?.updatedAt ?? metadata.creationTimestamp ?? '') || 0
  // What was there before is nothing that somebody did to what is there now.
  if (listing.at <= storedAt) return { state: 'unknown' }
  const drift = parameterDrift({
    stored,
    listed,
    storedAt,
    listedAt: listing.at,
    ownSessions: [stored.roleArn, place.roleArn].map((roleArn) => sessionArn({ roleArn, organization })),
  })
  const isStale = context.listings.isStale(listing)
  return { state: 'recorded', drift, ...(isStale ? { staleSince: listing.at } : {}) }
}

function foundIn({ version, type, modifiedBy: by }: ListedParameter, ownSession: string): FoundParameter {
  return { version, type, by, isOwnSession: by === ownSession }
}

/** A listing from before the credential says nothing of it, and one from soon after may not show it yet. */
function unrecorded(listing: Listing, found: FoundParameter | undefined, createdAt: string): ListingFacts {
  if (!found && listing.at < Date.parse(createdAt) + VISIBLE_AFTER_MS) return { state: 'unknown' }
  return { state: 'unrecorded', found }
}
