/** What the loop of credentials works with. */
import type { RegistryCredential } from '../../api/registry-credential.ts'
import type { MarkInput } from '../../domain/handover-mark.ts'
import type { Clock } from '../../ports/clock.ts'
import type { ParameterListing, ParameterStore } from '../../ports/cloud-accounts.ts'
import type { EventRecorder } from '../../ports/event-recorder.ts'
import type { ResourceReader, ResourceWriter } from '../../ports/kubernetes.ts'
import type { Logger } from '../../ports/log.ts'
import type { CredentialMetrics } from '../../ports/metrics.ts'
import type { KeyedMutex } from '../../runtime/keyed-mutex.ts'
import type { MutationCache } from '../../runtime/versioned-book.ts'
import type { Organizations } from '../organizations.ts'
import type { AccountAccess } from '../settings/account-access.ts'
import type { AccountListings } from '../settings/account-listings.ts'
import type { CredentialWriter } from './credential-writer.ts'
import type { FailedDeletions } from './orphan-ledger.ts'

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
