/** Everything that the next step of a credential is decided on. */

import { createdAtOf, hasGeneratedName } from '../../apis/created-at.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import type { Listing } from '../accounts/account-listings.ts'
import { hasPendingFields } from '../awaited-fields.ts'
import { parameterName } from '../aws/parameter-name.ts'
import { sessionArn } from '../aws/policies.ts'
import type { ListedParameter } from '../cloud.ts'
import { credentialSpecProblem } from '../credential-spec.ts'
import { readAccountFacts } from './account-facts.ts'
import type { CredentialContext } from './credential-context.ts'
import { hasParameterFinalizer } from './credential-writer.ts'
import type {
  AccountFacts,
  CredentialFacts,
  FoundParameter,
  InputSecretFacts,
  ListingFacts,
  ReconcileFacts,
} from './facts.ts'
import { type FoundInputSecret, readInputSecret } from './input-secret.ts'
import { parameterDrift } from './parameter-drift.ts'
import { VISIBLE_AFTER_MS } from './parameter-lag.ts'

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
