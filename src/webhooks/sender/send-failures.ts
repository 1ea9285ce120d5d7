import { errors } from 'undici'
import { ForbiddenAddressError } from '../../net/dial.ts'

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
  /** A complete response (or 16 KB of it) within the deadline. `response`: its first 256 bytes as text. */
  | { kind: 'response'; code: number; latencyMs: number; response: string }
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
const RESET: Failure = { class: 'reset', error: 'connection reset' }
const CUT: Failure = { class: 'reset', error: 'connection closed before the response was complete' }
const NOT_HTTP: Failure = { class: 'protocol', error: 'response is not valid HTTP' }
const HEADER_TOO_LARGE: Failure = { class: 'protocol', error: 'response header is too large' }
const CANNOT_SEND: Failure = { class: 'protocol', error: 'request could not be sent' }
export const CANCELED: Failure = { class: 'canceled', error: 'attempt was canceled' }

/** Tenants see a refused connection: anything else would reveal which internal addresses exist. */
export const BLOCKED: Failure = { class: 'blocked', error: REFUSED.error }

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
  [HANDSHAKE, 'EPROTO'],
  [RESET, 'ECONNRESET', 'EPIPE', 'ECONNABORTED'],
  [HEADER_TOO_LARGE, 'UND_ERR_HEADERS_OVERFLOW'],
  [CANNOT_SEND, 'UND_ERR_INVALID_ARG'],
  [CANCELED, 'UND_ERR_ABORTED', 'UND_ERR_DESTROYED'],
]
const BY_CODE = new Map(CODES.flatMap(([failure, ...codes]) => codes.map((code) => [code, failure] as const)))

/** @param ended whether the receiver had ended the connection when the error came */
export function failureOf(error: unknown, ended: boolean, deadlineMs: number): Failure {
  if (error instanceof ForbiddenAddressError) return BLOCKED
  const code = codeOf(error)
  const known = BY_CODE.get(code)
  if (known) return known
  if (code === 'ETIMEDOUT') return timeoutOf(deadlineMs, false)
  if (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_')) return HANDSHAKE
  // undici reports a response that broke off and one that is not HTTP in the same way.
  const isCutOrInvalid = code === 'UND_ERR_SOCKET' || code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'
  if (isCutOrInvalid || error instanceof errors.HTTPParserError) return ended ? CUT : NOT_HTTP
  return CANNOT_SEND
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
