/** What the operations on registry credentials share. */

import type { AccountIdentity } from '../credentials/accounts/account-identity.ts'
import type { ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { ResourceReader, ResourceWriter } from '../kube/client.ts'
import type { Organization } from '../kube/organizations.ts'
import type { KeyedMutex } from '../lib/keyed-mutex.ts'
import type { CredentialMetrics } from '../lib/metrics.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import type { CredentialDirectory } from './credential-directory.ts'
import type { IdempotencyKeys } from './ports-idempotency.ts'
import type { SecretStore } from './secret-store.ts'

export type CredentialsOptions = {
  resources: ResourceReader & ResourceWriter
  /** Credentials of all organizations, from the watch; what is written here is applied at once. */
  directory: CredentialDirectory
  /** Why the directory may not have all of them as they are, in words; undefined while it has. */
  behind: () => string | undefined
  organizations: { get(name: string): Organization | undefined }
  identity: AccountIdentity
  parameters: ParameterStore & ParameterListing
  keys: IdempotencyKeys
  /** Credentials that an organization may have. */
  maxCredentials: number
  clock: Clock
  random: Random
  log: Logger
  metrics: CredentialMetrics
}

export type CredentialsContext = CredentialsOptions & {
  store: SecretStore
  /** By credential: of the changes that come here at a time, one after the other writes. */
  mutex: KeyedMutex
}

/** The namespace, and the name of the credential there. */
export type CredentialRef = { namespace: string; name: string }
