/** Errors common to all AWS services, with a different name and status in each protocol. */
export type CommonKind =
  | 'access-denied'
  | 'expired-token'
  | 'incomplete-signature'
  | 'internal'
  | 'invalid-token'
  | 'malformed'
  | 'missing-token'
  | 'signature'
  | 'throttled'
  | 'unavailable'
  | 'unknown-operation'
  | 'validation'

/** An error that AWS would answer with. The code is specific to a service, or the protocol's name for the kind. */
export class AwsError extends Error {
  override readonly name = 'AwsError'
  readonly code: string | undefined
  readonly kind: CommonKind | undefined
  readonly status: number
  /** Whether the message repeats what was sent, which may be secret. */
  isEcho = false

  private constructor(named: { code?: string; kind?: CommonKind }, message: string, status: number) {
    super(message)
    this.code = named.code
    this.kind = named.kind
    this.status = status
  }

  static of(kind: CommonKind, message: string): AwsError {
    return new AwsError({ kind }, message, 400)
  }

  static coded(code: string, message: string, status = 400): AwsError {
    return new AwsError({ code }, message, status)
  }

  static echo(code: string, message: string, status = 400): AwsError {
    const error = AwsError.coded(code, message, status)
    error.isEcho = true
    return error
  }
}

/**
 * AWS has the feature, the emulator does not: a test that needs it must not pass by luck. Over HTTP it is a 501, which no client
 * retries, and it is recorded in `AwsEmulator.defects`.
 */
export class NotInTheDouble extends Error {
  override readonly name = 'NotInTheDouble'
}
