/** What REST does to registry credentials (interface §2.1, §4.1). Ids are `rc_...`; one that fits none is `not_found`. */
import type { CredentialType } from '../apis/registry-credential.ts'
import type { SecretText } from '../lib/secret-text.ts'
import type { Conditional, Keyed } from './endpoint-resource.ts'

/** A credential as its owner sees it, without its secret. Times are ISO 8601, UTC, with milliseconds. */
export type CredentialResource = {
  id: string
  label: string
  /** In the form in which hosts are compared. */
  registry: string
  type: CredentialType
  /** Only of the type token. */
  username?: string
  createdAt: string
  updatedAt: string
}

export type CredentialDraft = {
  type: CredentialType
  label: string
  registry: string
  username?: string | undefined
  secret?: SecretText | undefined
}

/** What is absent stays as it is. */
export type CredentialChange = {
  label?: string | undefined
  username?: string | undefined
  secret?: SecretText | undefined
}

/** The credential and the value of its ETag, quotes included. */
export type TaggedCredential = { credential: CredentialResource; etag: string }

export type CreatedCredential = {
  /** As it was made, in a repeat too. */
  credential: CredentialResource
  /** Absent in a repeat, if the credential is gone by then. */
  etag?: string
  /** The same request had been answered before. */
  replayed: boolean
}

export type ChangedCredential = TaggedCredential & { replayed: boolean }

/** Which credential: the organization, and the `rc_` id. */
export type CredentialId = { organization: string; credentialId: string }

/** All @throws RefusedError */
export interface RegistryCredentials {
  /**
   * The secret is in the organization's account when it is answered, and nowhere else. Refuses: invalid, too_many_credentials,
   * secrets_settings_required, cloud_account_not_ready, cloud_unavailable, idempotency_conflict
   */
  create(organization: string, draft: CredentialDraft, how: Keyed): Promise<CreatedCredential>
  /** By name. `after` is the last id that the reader has, also of one deleted since; `next` is the one for the page behind this. */
  list(
    organization: string,
    query: { limit: number; after?: string | undefined },
  ): Promise<{ registryCredentials: CredentialResource[]; next?: string }>
  get(id: CredentialId): Promise<TaggedCredential>
  /** A secret becomes a new version. Refuses as `create` does, and: managed_elsewhere, precondition_failed, not_acknowledged */
  change(id: CredentialId, change: CredentialChange, how: Keyed & Conditional): Promise<ChangedCredential>
  /** Gone from REST at once; its secret is removed afterwards. Refuses: precondition_failed */
  remove(id: CredentialId, how: Conditional): Promise<void>
}
