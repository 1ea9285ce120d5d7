import { describe, expect, it } from 'vitest'
import { classifyError } from './errors.ts'

function serviceError(name: string, status: number, more: object = {}): Error {
  const error = Object.assign(
    new Error('said'),
    { $fault: 'client', $metadata: { httpStatusCode: status } },
    more,
  )
  error.name = name
  return error
}

function networkError(code: string, more: object = {}): Error {
  return Object.assign(new Error(`${code} somewhere`), { code }, more)
}

describe('verdictOf', () => {
  it.each([
    {
      given: serviceError('AccessDeniedException', 400),
      want: ['permissions', undefined, 'AccessDeniedException', false],
    },
    { given: serviceError('TooManyUpdates', 400), want: ['retry', 'later', 'TooManyUpdates', false] },
    { given: serviceError('InternalServerError', 500), want: ['retry', 'soon', 'InternalServerError', true] },
    { given: serviceError('NeverHeardOf', 503), want: ['retry', 'soon', 'NeverHeardOf', true] },
    { given: serviceError('NeverHeardOf', 400), want: ['spec', undefined, 'NeverHeardOf', false] },
    { given: serviceError('a code of\nits own', 403), want: ['permissions', undefined, 'Unknown', false] },
    {
      given: serviceError('SignatureDoesNotMatch', 403, {
        $metadata: { httpStatusCode: 403, clockSkewCorrected: true },
      }),
      want: ['retry', 'soon', 'SignatureDoesNotMatch', false],
    },
    {
      given: Object.assign(new SyntaxError('Unexpected token <'), { $response: { statusCode: 502 } }),
      want: ['retry', 'soon', 'UnreadableResponse', true],
    },
    { given: networkError('ECONNREFUSED'), want: ['retry', 'soon', 'Unreachable', false] },
    { given: networkError('ENOTFOUND'), want: ['retry', 'soon', 'Unreachable', false] },
    {
      given: new AggregateError([networkError('ECONNREFUSED'), networkError('ENETUNREACH')]),
      want: ['retry', 'soon', 'Unreachable', false],
    },
    { given: networkError('ERR_TLS_CERT_ALTNAME_INVALID'), want: ['retry', 'soon', 'Unreachable', false] },
    {
      given: networkError('ETIMEDOUT', { syscall: 'connect' }),
      want: ['retry', 'soon', 'Unreachable', false],
    },
    {
      given: networkError('ECONNRESET', { name: 'TimeoutError' }),
      want: ['retry', 'soon', 'Unreachable', true],
    },
    { given: networkError('EPIPE'), want: ['retry', 'soon', 'Unreachable', true] },
    {
      given: networkError('ETIMEDOUT', { name: 'TimeoutError' }),
      want: ['retry', 'soon', 'TimedOut', true],
    },
    {
      given: Object.assign(new Error('none'), { name: 'CredentialsProviderError' }),
      want: ['retry', undefined, 'NoIdentity', false],
    },
    { given: new TypeError('x is not a function'), want: ['retry', undefined, 'Failed', true] },
    { given: 'text', want: ['retry', undefined, 'Failed', true] },
  ])('is $want', ({ given, want }) => {
    const { remedy, again, code, unsure } = classifyError(given)
    expect([remedy, again, code, unsure]).toEqual(want)
  })

  it('shows nothing of an answer that is not the service’s', () => {
    const body = 'Unexpected token in "the-secret-of-somebody"'
    const { words } = classifyError(Object.assign(new SyntaxError(body), { $response: { statusCode: 200 } }))
    expect(words).toBe('HTTP 200')
  })
})
