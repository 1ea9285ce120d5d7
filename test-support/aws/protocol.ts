import type { AwsError, CommonKind } from './aws-error.ts'

export type Answer = { status: number; headers: Readonly<Record<string, string>>; body: string }

/** How requests and answers of a service look on the wire. */
export type Protocol = {
  /** How far the clock of a client may be off, as the service says in its refusal. */
  skewMinutes: number
  /** @throws AwsError where it cannot be read */
  decode(headers: Readonly<Record<string, unknown>>, body: string): { operation: string; input: unknown }
  success(operation: string, result: unknown, requestId: string): Answer
  failure(error: NamedError, requestId: string): Answer
  common: Readonly<Record<CommonKind, { code: string; status: number }>>
}

/** An error as a protocol says it. */
export type NamedError = { code: string; status: number; message: string }

export function nameError(protocol: Protocol, error: AwsError): NamedError {
  const { message } = error
  if (error.kind !== undefined) return { ...protocol.common[error.kind], message }
  return { code: error.code ?? 'InternalFailure', status: error.status, message }
}
