/** What is known of a credential when the next step is decided (credential-plan.ts). */
import type { CredentialStall, CredentialType, StoredParameter } from '../../apis/registry-credential.ts'
import type { CloudFailure } from '../cloud-failure.ts'
import type { ParameterDrift } from './parameter-drift.ts'

/** Where the parameter of this credential belongs, and how to get there. */
export type ParameterLocation = {
  name: string
  region: string
  account: string
  roleArn: string
  kmsKeyId?: string | undefined
}

/**
 * The organization's SecretsSettings, read live: `missing` makes Davit remove what it stored.
 * `place`: what was connected before, if anything was; settings that are being deleted are missing, and still tell it.
 */
export type AccountFacts =
  | { state: 'missing'; place?: ParameterLocation | undefined }
  | { state: 'connecting' | 'stalled'; message: string; place?: ParameterLocation | undefined }
  | { state: 'ready'; place: ParameterLocation }

/** The Secret that `spec.secretRef` names. */
export type InputSecretFacts =
  | { state: 'none' }
  | { state: 'missing' }
  /** Davit has no right to Secrets here. */
  | { state: 'forbidden' }
  | { state: 'wrong-type'; type: string }
  | { state: 'no-key' }
  /** The value is not one that can be stored; the problem says why without it. */
  | { state: 'problem'; problem: string }
  | UsableInputSecret

/** `mark` stands for the value in this version of it (handover-mark.ts), `isSameValue`: it is the one that status.handover speaks of. */
export type UsableInputSecret = {
  state: 'usable'
  uid: string
  resourceVersion: string
  retained: boolean
  mark: string
  isSameValue: boolean
}

/** status.handover. */
export type StoredInputSecret = { uid: string; resourceVersion: string; mark?: string | undefined }

/** A parameter under the name of a credential that has recorded none. */
export type FoundParameter = {
  version: number
  type: string
  /** ARN of who wrote it last, and whether that is the session of this organization. */
  by: string
  isOwnSession: boolean
}

/** What the last listing of the organization says of this parameter. */
export type ListingFacts =
  | { state: 'unknown' }
  /** Nothing is recorded in the status: what is under the name. */
  | { state: 'unrecorded'; found?: FoundParameter | undefined }
  /** `staleSince`: it is so old that something may have changed since, milliseconds since 1970. */
  | { state: 'recorded'; drift: ParameterDrift; staleSince?: number }

/** Whose the parameter under the name is, by its tags; `absent` where the cloud says that it is gone. */
export type Ownership = 'unknown' | 'ours' | 'not-ours' | 'absent'

/**
 * What the steps of this pass found out. It begins as `NEW_PASS`, and does so again after `forget`, `adopt`, `put-new` and
 * `put-version`, since then it would speak of another parameter or version.
 */
export type ReconcileFacts = {
  owner: Ownership
  /** Of the last call to the cloud, where that failed; one that succeeds clears it. */
  failure?: CloudFailure | undefined
  removed: boolean
  failedDeletionRecorded: boolean
}

export type CredentialFacts = {
  /** Milliseconds since 1970. */
  now: number
  type: CredentialType
  createdAt: number
  /** When anybody wrote the parameter last, as far as the status tells. */
  writtenAt: number
  /** Davit made the name, as it does for REST: no credential before had it, so a parameter of that name is its own. */
  generatedName: boolean
  /** Absent: not being deleted. */
  deletedAt?: number | undefined
  hasFinalizer: boolean
  /** What is wrong with namespace or spec; no step follows while it is. */
  problem?: { reason: CredentialStall; message: string } | undefined
  account: AccountFacts
  secretName?: string | undefined
  inputSecret: InputSecretFacts
  /** Name of an older credential that names the same Secret. */
  sharedWith?: string | undefined
  /** status.parameter and status.handover. */
  stored?: StoredParameter | undefined
  storedInputSecret?: StoredInputSecret | undefined
  /** The newest version in the account may be one whose fields were not written (awaited-fields.ts). */
  hasPendingFields: boolean
  /** It had a parameter in an account that it has left: this pass has forgotten it, or the condition Stored says so. */
  moved: boolean
  listing: ListingFacts
  pass: ReconcileFacts
}

export const NO_RECONCILE_FACTS: ReconcileFacts = {
  owner: 'unknown',
  removed: false,
  failedDeletionRecorded: false,
}
