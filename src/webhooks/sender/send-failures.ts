import { errors } from 'undici'
import { ForbiddenAddressError, UnknownInternalNameError } from '../../net/dial.ts'

/** What an attempt needs and how it ends; failures are told apart by code, never by the text of a message. */

/** One HTTP attempt of a delivery. */
export type SendRequest = {
  url: string
  /** All headers that Davit sets; the sender adds only what HTTP itself needs. */
  headers: Record<string, string>
  /** The exact bytes that were signed. */
  body: Uint8Array
  /** From name resolution to the end of the response body. */
  deadlineMs: number
  /** Asked once connected, before the first byte: on false nothing is written, and the outcome is `canceled`. */
  isWanted?(): boolean
}

/** `blocked` (an address that Davit does not connect to) is for metrics only: its `error` reads like `refused`. */
type FailureClass = 'refused' | 'blocked' | 'dns' | 'tls' | 'timeout' | 'reset' | 'protocol' | 'canceled'

export type SendOutcome =
  /**
   * A complete response (or 16 KB of it) within the deadline. `response`: its first 256 bytes as text. `location`: the start of the
   * Location of a redirect.
   */
  | { kind: 'response'; code: number; latencyMs: number; response: string; location?: string }
  /** `error` is for people; `code` is set if a response head had arrived before it failed. */
  | { kind: 'failure'; class: FailureClass; error: string; latencyMs: number; code?: number }

export interface WebhookSender {
  /** Never rejects: failures are outcomes. `signal` cancels the attempt. */
  send(request: SendRequest, signal?: AbortSignal): Promise<SendOutcome>
}

export type Failure = { class: FailureClass; error: string }

const REFUSED: Failure = { class: 'refused', error: 'connection refused' }
const NO_ROUTE: Failure = { class: 'refused', error: 'no route to host' }
/** A problem of this machine, not of the receiver. */
const NO_SOCKET: Failure = { class: 'refused', error: 'no free socket on the sender' }
const NO_NAME: Failure = { class: 'dns', error: 'host name does not resolve' }
const NAME_SERVER_FAILED: Failure = {
  class: 'dns',
  error: 'host name does not resolve: the DNS server failed',
}
const NAME_SERVER_SILENT: Failure = {
  class: 'dns',
  error: 'host name does not resolve: no response from the DNS server',
}
const EXPIRED: Failure = { class: 'tls', error: 'TLS certificate has expired' }
const NOT_YET_VALID: Failure = { class: 'tls', error: 'TLS certificate is not valid yet' }
const OTHER_NAME: Failure = { class: 'tls', error: 'TLS certificate does not match the host name' }
const NOT_TRUSTED: Failure = { class: 'tls', error: 'TLS certificate is not trusted' }
const HANDSHAKE: Failure = { class: 'tls', error: 'TLS handshake failed' }
const NO_TLS: Failure = {
  class: 'tls',
  error: 'TLS handshake failed: the receiver does not use TLS on this port',
}
const OLD_TLS: Failure = {
  class: 'tls',
  error: 'TLS handshake failed: the receiver offers only old versions of TLS',
}
const RESET: Failure = { class: 'reset', error: 'connection reset' }
const CUT: Failure = { class: 'reset', error: 'connection closed before the response was complete' }
const NOT_HTTP: Failure = { class: 'protocol', error: 'response is not valid HTTP' }
const HTTP_2: Failure = {
  class: 'protocol',
  error: 'response is not valid HTTP: the receiver speaks HTTP/2 only',
}
const TLS_RESPONSE: Failure = {
  class: 'protocol',
  error: 'response is not valid HTTP: the receiver expects TLS on this port',
}
const HEADER_TOO_LARGE: Failure = { class: 'protocol', error: 'response header is too large' }
const CANNOT_SEND: Failure = { class: 'protocol', error: 'request could not be sent' }
export const CANCELED: Failure = { class: 'canceled', error: 'attempt was canceled' }

/** Tenants see a refused connection: anything else would reveal which internal addresses exist. */
export const BLOCKED: Failure = { class: 'blocked', error: REFUSED.error }
/** And which internal names exist. */
const UNKNOWN_INTERNAL_NAME: Failure = { class: 'dns', error: BLOCKED.error }
const BLOCKED_AS_UNKNOWN: Failure = { class: 'blocked', error: NO_NAME.error }
/** The time of the resolution would tell the two apart. */
const TIMELESS: ReadonlySet<Failure> = new Set([NO_NAME, BLOCKED, UNKNOWN_INTERNAL_NAME, BLOCKED_AS_UNKNOWN])

const CODES: readonly (readonly [Failure, ...string[]])[] = [
  [REFUSED, 'ECONNREFUSED', 'EACCES', 'EPERM'],
  [NO_ROUTE, 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENETDOWN'],
  [NO_SOCKET, 'EADDRNOTAVAIL', 'EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'],
  [NO_NAME, 'ENOTFOUND', 'ENODATA', 'ENONAME', 'EBADNAME'],
  [NAME_SERVER_FAILED, 'ESERVFAIL', 'EREFUSED', 'EFORMERR', 'ENOTIMP', 'EBADRESP', 'EAI_FAIL'],
  [NAME_SERVER_SILENT, 'EAI_AGAIN', 'ETIMEOUT', 'ECANCELLED'],
  [EXPIRED, 'CERT_HAS_EXPIRED'],
  [NOT_YET_VALID, 'CERT_NOT_YET_VALID'],
  [OTHER_NAME, 'ERR_TLS_CERT_ALTNAME_INVALID', 'HOSTNAME_MISMATCH'],
  [NOT_TRUSTED, 'UNABLE_TO_GET_ISSUER_CERT', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY'],
  [NOT_TRUSTED, 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'UNABLE_TO_DECRYPT_CERT_SIGNATURE'],
  [NOT_TRUSTED, 'UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY', 'CERT_SIGNATURE_FAILURE'],
  [NOT_TRUSTED, 'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'CERT_CHAIN_TOO_LONG'],
  [NOT_TRUSTED, 'CERT_REVOKED', 'CERT_UNTRUSTED', 'CERT_REJECTED'],
  [NOT_TRUSTED, 'INVALID_CA', 'INVALID_PURPOSE', 'PATH_LENGTH_EXCEEDED'],
  [NOT_TRUSTED, 'ERROR_IN_CERT_NOT_BEFORE_FIELD', 'ERROR_IN_CERT_NOT_AFTER_FIELD'],
  // All others, such as a key that is too short.
  [NOT_TRUSTED, 'UNSPECIFIED'],
  [NO_TLS, 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG', 'ERR_SSL_HTTP_REQUEST'],
  [OLD_TLS, 'ERR_SSL_UNSUPPORTED_PROTOCOL', 'ERR_SSL_VERSION_TOO_LOW'],
  [HANDSHAKE, 'EPROTO'],
  [RESET, 'ECONNRESET', 'EPIPE', 'ECONNABORTED'],
  [HEADER_TOO_LARGE, 'UND_ERR_HEADERS_OVERFLOW'],
  // undici has not expected such a response.
  [NOT_HTTP, 'ERR_ASSERTION'],
  [CANNOT_SEND, 'UND_ERR_INVALID_ARG'],
  [CANCELED, 'UND_ERR_ABORTED', 'UND_ERR_DESTROYED'],
]
const BY_CODE = new Map(CODES.flatMap(([failure, ...codes]) => codes.map((code) => [code, failure] as const)))

/** Alerts of TLS (RFC 8446 §6), by the name that OpenSSL gives them, with what they say about the receiver. */
const ALERTS: Readonly<Record<string, string>> = {
  NO_APPLICATION_PROTOCOL: 'the receiver does not support HTTP/1.1',
  PROTOCOL_VERSION: 'the receiver supports neither TLS 1.2 nor TLS 1.3',
  CERTIFICATE_REQUIRED: 'the receiver requires a client certificate',
  UNRECOGNIZED_NAME: 'the receiver does not know the host name',
  HANDSHAKE_FAILURE: 'the receiver rejected the TLS parameters',
  INSUFFICIENT_SECURITY: 'the receiver requires stronger ciphers',
  ACCESS_DENIED: 'the receiver denied access',
  INTERNAL_ERROR: 'the receiver has an internal error',
}

/** `SSL/TLS` for the alerts of SSL 3.0, or the version of TLS that added the alert. */
const ALERT_CODE = /^ERR_SSL_(?:SSL\/TLS|SSLV3|TLSV1\d?)_(?:ALERT_)?([A-Z0-9_]{1,40})$/
const OPENSSL_CODE = /^ERR_SSL_([A-Z0-9_/]{1,60})$/

/** As RFC 8446 spells it. */
function nameOf(alert: string): string {
  return alert.toLowerCase().replace('cancelled', 'canceled')
}

/** Undefined if it is no error of TLS. */
function tlsFailureOf(code: string): Failure | undefined {
  const alert = ALERT_CODE.exec(code)?.[1]
  if (alert !== undefined) {
    const meaning = ALERTS[alert] ?? 'the receiver rejected it'
    return { class: 'tls', error: `TLS handshake failed: ${meaning} (alert ${nameOf(alert)})` }
  }
  const reason = OPENSSL_CODE.exec(code)?.[1]
  if (reason !== undefined)
    return { class: 'tls', error: `TLS handshake failed: ${reason.toLowerCase().replaceAll('_', ' ')}` }
  return code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') ? HANDSHAKE : undefined
}

/** @param ended whether the receiver had ended the connection when the error came */
export function failureOf(error: unknown, ended: boolean, deadlineMs: number): Failure {
  if (error instanceof ForbiddenAddressError) return error.seemsUnknown ? BLOCKED_AS_UNKNOWN : BLOCKED
  if (error instanceof UnknownInternalNameError) return UNKNOWN_INTERNAL_NAME
  const code = codeOf(error)
  const known = BY_CODE.get(code) ?? tlsFailureOf(code)
  if (known) return known
  if (code === 'ETIMEDOUT') return timeoutOf(deadlineMs, false)
  // undici reports a response that broke off and one that is not HTTP in the same way.
  if (error instanceof errors.HTTPParserError) return ended ? CUT : notHttp(error)
  if (code === 'UND_ERR_SOCKET' || code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH')
    return ended ? CUT : NOT_HTTP
  return CANNOT_SEND
}

const SETTINGS = 4
const TLS_ALERT = 21

/** By the start of what came instead: a SETTINGS frame of stream 0 (RFC 9113 §3.4), or a TLS record with an alert. */
function notHttp(error: errors.HTTPParserError): Failure {
  const data = 'data' in error && typeof error.data === 'string' ? error.data : ''
  const start = Buffer.from(data.slice(0, 9), 'latin1')
  if (start.length < 5) return NOT_HTTP
  if (start[0] === TLS_ALERT && start[1] === 3) return TLS_RESPONSE
  const isSettings = start.length === 9 && start[3] === SETTINGS && start.readUInt32BE(5) === 0
  return start[0] === 0 && isSettings ? HTTP_2 : NOT_HTTP
}

/** The latency to show: 0 if the name of the receiver led to no connection. */
export function latencyOf(failure: Failure, latencyMs: number): number {
  return TIMELESS.has(failure) ? 0 : latencyMs
}

/** @param hasHead whether a response head had arrived */
export function timeoutOf(deadlineMs: number, hasHead: boolean): Failure {
  const seconds = `${Math.round(deadlineMs / 100) / 10} s`
  const error = hasHead ? `response was not complete within ${seconds}` : `no response within ${seconds}`
  return { class: 'timeout', error }
}

/** If several addresses were tried, the error of the first. */
function codeOf(error: unknown): string {
  if (error instanceof AggregateError && !('code' in error)) return codeOf(error.errors[0])
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
