import type { BoxCredential } from '../apis/box-credentials.ts'
import type { SecretText } from '../lib/redact.ts'

/** A failure of the cloud as a value, in the words of the port's error. */
export type CloudFailure = {
  /** What can be done about it. */
  remedy: 'retry' | 'permissions' | 'spec' | 'gone'
  /** The provider's own word. */
  code: string
  /** What was refused, such as `ssm:PutParameter`. */
  operation?: string | undefined
  message: string
}

/** For messages of conditions: the code first, which is what people look up. */
export function failureText({ code, operation, message }: CloudFailure): string {
  const what = operation ? `${code} (${operation})` : code
  return message === '' ? what : `${what}: ${message.replace(/\.+$/, '')}`
}

/**
 * What can be done about a failure of the cloud: `retry` later, `permissions` of a role or key to be changed by the owner of
 * the account, `spec` of the resource to be changed, or the thing is `gone`.
 */
export type CloudRemedy = 'retry' | 'permissions' | 'spec' | 'gone'

/** Every failure of a call to the cloud provider, after the adapter's own retries. */
export class CloudError extends Error {
  override readonly name = 'CloudError'
  readonly remedy: CloudRemedy
  /**
   * The provider's own word, such as `AccessDenied`. Where it said nothing: `Unreachable`; `TimedOut` at a deadline; `Canceled`
   * by the caller; `Busy` when there was no turn in time; `NoIdentity` when Davit itself is nobody to the provider.
   */
  readonly code: string
  /** What was refused, such as `sts:AssumeRole` or `ssm:PutParameter`: which right or key is to be changed. */
  readonly operation: string
  /** Whether the provider may have done it nevertheless: the answer was lost, of this attempt or of an earlier one. */
  readonly unsure: boolean

  /** @param message the provider's words, bounded, without request ids, values and credentials */
  constructor(
    remedy: CloudRemedy,
    code: string,
    message: string,
    about: { operation?: string; unsure?: boolean } = {},
  ) {
    super(message)
    this.remedy = remedy
    this.code = code
    this.operation = about.operation ?? ''
    this.unsure = about.unsure ?? false
  }
}

export function isCloudError(error: unknown, ...codes: string[]): error is CloudError {
  return error instanceof CloudError && (codes.length === 0 || codes.includes(error.code))
}

/**
 * The cloud account of an organization, as far as Davit needs it: a place for secrets that can be written and not read.
 * Every method throws CloudError.
 */

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

/** Which secret: one version of one parameter. */
export type PinnedParameter = { name: string; version: number; region: string }

export interface ParameterReader {
  /**
   * Reads it with the identity of this process. What is not there yet is asked for again for 10 s, since reads may lag behind.
   * Throws CloudError, also `ParameterVersionNotFound` of the remedy `gone`.
   */
  read(parameter: PinnedParameter, limits?: CallLimits): Promise<SecretText>
}

/** A registry of the provider, as its host names it. */
export type CloudRegistry = { account: string; region: string }

export type RegistryLogin = {
  username: string
  password: SecretText
  /** Milliseconds since 1970. */
  expiresAt: number
}

export interface RegistryTokens {
  /**
   * A login made now, with the identity of this process, in the region of the registry: it is of no use in another one. It
   * opens every registry that the identity may use, not that of `account` alone. Throws CloudError.
   */
  token(registry: CloudRegistry, limits?: CallLimits): Promise<RegistryLogin>
}

export type BoxLogin = {
  username: string
  password: SecretText
  /** Milliseconds since 1970; absent where nothing ends it. */
  expiresAt?: number
}

/** A pod that shows who it is, instead of the machine that it runs on. */
export type PodRole = { roleArn: string; token: SecretText; namespace: string }

export interface BoxLogins {
  /**
   * Fetched now, and kept nowhere, with the role of this machine or that of a pod. Throws CloudError.
   */
  login(credential: BoxCredential, pod?: PodRole): Promise<BoxLogin>
}

/** How long kubelet may keep a login. */

/** Clocks differ, and a pull takes a while. */
const SPARE_SECONDS = 60
/** Half of the longest life that there is; more is left only by a clock that is wrong. */
const MAX_SECONDS = 6 * 3600

/**
 * Half of what is left of its life, so that a pull which begins with it ends with it; what nothing ends is kept for `seconds`,
 * so that a secret which was replaced is used no longer than that.
 */
export function cacheSeconds(login: { expiresAt?: number }, of: { now: number; seconds: number }): number {
  if (login.expiresAt === undefined) return of.seconds
  const left = Math.floor((login.expiresAt - of.now) / 1000)
  return left <= SPARE_SECONDS ? 0 : Math.min(Math.floor(left / 2), MAX_SECONDS)
}

/** As Go reads a duration. */
export function goDuration(seconds: number): string {
  return `${seconds}s`
}
