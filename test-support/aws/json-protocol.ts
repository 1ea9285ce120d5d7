/** JSON 1.1 with the operation in X-Amz-Target: SSM, ECR, KMS. */
import { AwsError } from './aws-error.ts'
import type { Protocol } from './protocol.ts'

const CONTENT_TYPE = 'application/x-amz-json-1.1'

/** @param target prefix of the operation, such as `AmazonSSM` */
export function jsonProtocol(target: string): Protocol {
  return {
    skewMinutes: 5,
    decode(headers, body) {
      const [prefix, operation] = splitOnce(String(headers['x-amz-target'] ?? ''))
      if (headers['content-type'] !== CONTENT_TYPE || prefix !== target)
        throw AwsError.of('unknown-operation', '')
      return { operation, input: parse(body) }
    },
    success: (_operation, result, requestId) => answer(200, result, requestId),
    failure: ({ code, status, message }, requestId) => answer(status, errorBody(code, message), requestId),
    common: {
      'access-denied': { code: 'AccessDeniedException', status: 400 },
      'expired-token': { code: 'ExpiredTokenException', status: 400 },
      'incomplete-signature': { code: 'IncompleteSignatureException', status: 400 },
      internal: { code: 'InternalServerError', status: 500 },
      'invalid-token': { code: 'UnrecognizedClientException', status: 400 },
      malformed: { code: 'SerializationException', status: 400 },
      'missing-token': { code: 'MissingAuthenticationTokenException', status: 400 },
      signature: { code: 'InvalidSignatureException', status: 400 },
      throttled: { code: 'ThrottlingException', status: 400 },
      unavailable: { code: 'ServiceUnavailableException', status: 503 },
      'unknown-operation': { code: 'UnknownOperationException', status: 404 },
      validation: { code: 'ValidationException', status: 400 },
    },
  }
}

/** Errors of the framework in front of a service have the framework's namespace. */
const FRAMEWORK_ERRORS = new Set([
  'ExpiredTokenException',
  'IncompleteSignatureException',
  'InvalidSignatureException',
  'MissingAuthenticationTokenException',
  'SerializationException',
  'UnknownOperationException',
  'UnrecognizedClientException',
])

function errorBody(code: string, message: string): Record<string, string> {
  if (FRAMEWORK_ERRORS.has(code)) return { __type: `com.amazon.coral.service#${code}`, message }
  if (message === '') return { __type: code }
  return code === 'AccessDeniedException' ? { __type: code, Message: message } : { __type: code, message }
}

function answer(status: number, body: unknown, requestId: string) {
  const headers = { 'content-type': CONTENT_TYPE, 'x-amzn-requestid': requestId }
  return { status, headers, body: JSON.stringify(body ?? {}) }
}

function parse(body: string): unknown {
  try {
    const input: unknown = JSON.parse(body)
    if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input
  } catch {
    // Invalid JSON gets the same answer.
  }
  throw AwsError.of('malformed', '')
}

function splitOnce(target: string): [string, string] {
  const at = target.lastIndexOf('.')
  return at < 0 ? ['', target] : [target.slice(0, at), target.slice(at + 1)]
}
