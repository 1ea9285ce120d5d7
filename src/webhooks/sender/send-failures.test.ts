import { expect, test } from 'vitest'
import { ForbiddenAddressError } from '../../net/dial.ts'
import { failureOf, timeoutOf } from './send-failures.ts'

function coded(code: string): Error {
  return Object.assign(new Error('a message that says something else: ECONNREFUSED'), { code })
}

test.each([
  { code: 'ECONNREFUSED', want: ['refused', 'connection refused'] },
  { code: 'EHOSTUNREACH', want: ['refused', 'no route to host'] },
  { code: 'EMFILE', want: ['refused', 'no free socket on the sender'] },
  { code: 'ENOTFOUND', want: ['dns', 'host name does not resolve'] },
  { code: 'ESERVFAIL', want: ['dns', 'host name does not resolve: the DNS server failed'] },
  { code: 'ETIMEOUT', want: ['dns', 'host name does not resolve: no response from the DNS server'] },
  { code: 'CERT_HAS_EXPIRED', want: ['tls', 'TLS certificate has expired'] },
  { code: 'ERR_TLS_CERT_ALTNAME_INVALID', want: ['tls', 'TLS certificate does not match the host name'] },
  { code: 'SELF_SIGNED_CERT_IN_CHAIN', want: ['tls', 'TLS certificate is not trusted'] },
  { code: 'UNSPECIFIED', want: ['tls', 'TLS certificate is not trusted'] },
  {
    code: 'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE',
    want: ['tls', 'TLS handshake failed: the receiver rejected the TLS parameters (alert handshake_failure)'],
  },
  {
    code: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
    want: [
      'tls',
      'TLS handshake failed: the receiver does not support HTTP/1.1 (alert no_application_protocol)',
    ],
  },
  {
    code: 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME',
    want: ['tls', 'TLS handshake failed: the receiver does not know the host name (alert unrecognized_name)'],
  },
  {
    code: 'ERR_SSL_TLSV1_ALERT_USER_CANCELLED',
    want: ['tls', 'TLS handshake failed: the receiver rejected it (alert user_canceled)'],
  },
  { code: 'ERR_SSL_DH_KEY_TOO_SMALL', want: ['tls', 'TLS handshake failed: dh key too small'] },
  { code: 'ERR_SSL_\u001b[31m', want: ['tls', 'TLS handshake failed'] },
  { code: `ERR_SSL_${'X'.repeat(1000)}`, want: ['tls', 'TLS handshake failed'] },
  { code: 'ERR_TLS_HANDSHAKE_TIMEOUT', want: ['tls', 'TLS handshake failed'] },
  { code: 'EPROTO', want: ['tls', 'TLS handshake failed'] },
  { code: 'ERR_ASSERTION', want: ['protocol', 'response is not valid HTTP'] },
  { code: 'ECONNRESET', want: ['reset', 'connection reset'] },
  { code: 'UND_ERR_HEADERS_OVERFLOW', want: ['protocol', 'response header is too large'] },
  { code: 'UND_ERR_SOCKET', want: ['protocol', 'response is not valid HTTP'] },
  { code: 'ETIMEDOUT', want: ['timeout', 'no response within 20 s'] },
  { code: 'SOMETHING_NEW', want: ['protocol', 'request could not be sent'] },
])('$code reads: $want', ({ code, want }) => {
  const failure = failureOf(coded(code), false, 20_000)
  expect([failure.class, failure.error]).toEqual(want)
})

test('a blocked address reads exactly like a refused connection and is told apart by class only', () => {
  const refused = failureOf(coded('ECONNREFUSED'), false, 20_000)
  const blocked = failureOf(new ForbiddenAddressError('hooks.example'), false, 20_000)
  expect(blocked.error).toBe(refused.error)
  expect(blocked.class).toBe('blocked')
})

test('where several addresses were tried, the first one speaks', () => {
  const all = new AggregateError([coded('EHOSTUNREACH'), coded('ECONNREFUSED')])
  expect(failureOf(all, false, 20_000).error).toBe('no route to host')
})

test.each([
  [20_000, 'no response within 20 s'],
  [500, 'no response within 0.5 s'],
])('the deadline of %d ms reads: %s', (ms, want) => {
  expect(timeoutOf(ms, false).error).toBe(want)
})
