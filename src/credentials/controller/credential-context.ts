/** What the loop of credentials works with. */
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import type { ResourceReader, ResourceWriter } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/event-recorder.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'
import type { Organizations } from '../../kube/organizations.ts'
import type { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type { CredentialMetrics } from '../../lib/metrics.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import type { AccountListings } from '../accounts/account-listings.ts'
import type { AccountAccess } from '../accounts/identity.ts'
import type { ParameterListing, ParameterStore } from '../cloud.ts'
import type { CredentialWriter } from './credential-writer.ts'
import type { FailedDeletions } from './failed-deletions.ts'
import type { MarkInput } from './handover-mark.ts'

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
