/**
 * The cloud account of an organization, as far as Davit needs it: a place for secrets that can be written and not read.
 * Every method throws CloudError.
 */
import type { SecretText } from '../lib/secret-text.ts'

/** How Davit gets into the account of an organization. */
export type CloudAccess = {
  /** Name of the organization: every name of a parameter is under it. */
  organization: string
  /** UID of its namespace; an organization that was made again under the same name is another one. */
  organizationUid: string
  roleArn: string
  region: string
  /** Made by Davit, never chosen by the organization. */
  externalId: string
  /** Absent: the account's own key for parameters. */
  kmsKeyId?: string
}

/** A parameter as a listing shows it, without its value. */
export type ListedParameter = {
  name: string
  version: number
  /** `SecureString`, or what somebody else made of it. */
  type: string
  kmsKeyId?: string
  /** Milliseconds since 1970. */
  modifiedAt: number
  /** ARN of who wrote this version. */
  modifiedBy: string
}

/** Tags that say whose a parameter is. */
export type OwnerTags = Readonly<Record<string, string>>

/** How long a call may take, and who may give it up. */
export type CallLimits = {
  /** Gives it up: it then fails as `Canceled`. */
  signal?: AbortSignal
  /** Milliseconds for all attempts, without the waiting for turns; 10 s if absent. Then it fails as `TimedOut`. */
  deadlineMs?: number
  /** Milliseconds that each attempt may wait for its turn among other organizations; 10 s if absent. Then it fails as `Busy`. */
  turnMs?: number
}

export interface ParameterStore {
  /**
   * Makes a parameter that is not there yet, with its tags. When the answer of an attempt is lost, it finds out whether that
   * attempt made it.
   * @throws CloudError `ParameterAlreadyExists` when it is not from this call; any code with `unsure` when this call may have made
   * it: look at the tags before it is removed
   */
  create(access: CloudAccess, parameter: NewParameter, limits?: CallLimits): Promise<{ version: number }>
  /**
   * Writes a new version of a parameter that is Davit's own. When the answer of an attempt is lost, there may be two new
   * versions of the same value, and the later one is told.
   * @throws CloudError `ParameterNotFound` of the remedy `gone` when there was none to write over; none is left behind
   */
  replace(
    access: CloudAccess,
    name: string,
    value: SecretText,
    limits?: CallLimits,
  ): Promise<{ version: number }>
  remove(access: CloudAccess, name: string, limits?: CallLimits): Promise<'deleted' | 'not-found'>
}

export type NewParameter = { name: string; value: SecretText; description: string; tags: OwnerTags }

export interface ParameterListing {
  /**
   * All parameters of the organization, those with the given tags only where tags are given. At most `limit`; more are an
   * error of the remedy `spec`.
   */
  list(
    access: CloudAccess,
    filter: { prefix: string; tags?: OwnerTags; limit: number },
    limits?: CallLimits,
  ): Promise<ListedParameter[]>
  /** @throws CloudError of the remedy `gone` */
  tagsOf(access: CloudAccess, name: string, limits?: CallLimits): Promise<OwnerTags>
}

/** What is tried to find out what a role can do. */
export interface AccountProbes {
  /** Who Davit itself is, which a trust policy has to name. */
  self(region: string, limits?: CallLimits): Promise<{ arn: string }>
  /**
   * Who Davit is in the account: proves that the role can be assumed now, with the right external id. What is remembered of
   * earlier attempts does not count.
   */
  identify(access: CloudAccess, limits?: CallLimits): Promise<{ account: string; arn: string }>
  /**
   * Tries to read the parameter in each of the ways that there are, in a session that Davit itself does not narrow, so that
   * only the role can refuse.
   * @returns the operations that were not refused, such as `ssm:GetParameter`, and the provider's code where one was
   */
  readable(
    access: CloudAccess,
    name: string,
    limits?: CallLimits,
  ): Promise<{ operations: string[]; code?: string }>
  /**
   * Tries to assume the role with an external id that is like the organization's and is not. Means something only when the role
   * can be assumed with the right one.
   * @returns whether that was refused, with the provider's code
   */
  refusesOtherId(access: CloudAccess, limits?: CallLimits): Promise<{ refused: boolean; code?: string }>
}
