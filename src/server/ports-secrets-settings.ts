/** What REST does to the secrets settings of an organization: the cloud account that keeps its secrets (interface §2.6, §4.1). */
import type { Condition } from '../apis/meta.ts'
import type { Conditional } from './endpoint-resource.ts'

export type ConditionSummary = Pick<
  Condition,
  'type' | 'status' | 'reason' | 'message' | 'lastTransitionTime'
>

/** The settings as their owner sees them. Before anybody has made any, what Davit has decided is there already. */
export type SettingsResource = {
  region?: string
  roleArn?: string
  kmsKeyId?: string
  /** What the role's trust policy has to ask for. */
  externalId: string
  account?: string
  /** Every parameter of the organization is under it. */
  parameterPrefix: string
  /** Policies to paste, as JSON. */
  trustPolicy?: string
  writerPolicy?: string
  readerPolicy?: string
  /** When the account was tried last. */
  checkedAt?: string
  /** Of these settings, not of those before; none while there are no settings. */
  conditions: ConditionSummary[]
}

/** All of the settings: what is absent is taken away. */
export type SettingsDraft = {
  region: string
  roleArn?: string | undefined
  kmsKeyId?: string | undefined
}

/** `etag` with its quotes; absent while there are no settings. */
export type TaggedSettings = { settings: SettingsResource; etag?: string }

/** All @throws RefusedError */
export interface OrganizationSettings {
  get(organization: string): Promise<TaggedSettings>
  /**
   * Answers when the account has been tried with them, or after ten seconds with what is known by then.
   * Refuses: invalid, managed_elsewhere, precondition_failed
   */
  put(organization: string, draft: SettingsDraft, how: Conditional): Promise<TaggedSettings>
}
