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
