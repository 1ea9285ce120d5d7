import type { AwsError, CommonKind } from './aws-error.ts'

export type Answer = { status: number; headers: Readonly<Record<string, string>>; body: string }

/** The wire format of a service's requests and answers. */
export type Protocol = {
  /** Allowed clock skew of a client, as stated in the service's error. */
  skewMinutes: number
  /** @throws AwsError if it cannot be read */
  decode(headers: Readonly<Record<string, unknown>>, body: string): { operation: string; input: unknown }
  success(operation: string, result: unknown, requestId: string): Answer
  failure(error: NamedError, requestId: string): Answer
  common: Readonly<Record<CommonKind, { code: string; status: number }>>
}

/** An error in the form of a protocol. */
export type NamedError = { code: string; status: number; message: string }

export function nameError(protocol: Protocol, error: AwsError): NamedError {
  const { message } = error
  if (error.kind !== undefined) return { ...protocol.common[error.kind], message }
  return { code: error.code ?? 'InternalFailure', status: error.status, message }
}
