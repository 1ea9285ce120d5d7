import { errors } from 'undici'
import type { ConnectFailure } from './outcome.ts'

/** More came than is ever needed. */
export class TooLargeError extends Error {
  override readonly name = 'TooLargeError'
  readonly code = 'TOO_LARGE'
}

const BY_CODE: Readonly<Record<string, ConnectFailure>> = {
  FORBIDDEN_ADDRESS: 'forbidden-address',
  TOO_LARGE: 'protocol',
  ENOTFOUND: 'dns',
  ENODATA: 'dns',
  EAI_AGAIN: 'dns',
  EAI_FAIL: 'dns',
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENETDOWN: 'refused',
  EADDRNOTAVAIL: 'refused',
  EACCES: 'refused',
  EPERM: 'refused',
  ETIMEDOUT: 'timeout',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  ECONNABORTED: 'reset',
  UND_ERR_SOCKET: 'reset',
  EPROTO: 'tls',
  INVALID_CA: 'tls',
  INVALID_PURPOSE: 'tls',
  HOSTNAME_MISMATCH: 'tls',
  PATH_LENGTH_EXCEEDED: 'tls',
}
const TLS_CODE = /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERROR_IN_CERT_)/

const LONGEST_WORDS = 500

/** What a failed exchange is, by the code of Node; where several addresses were tried, of the first. */
export function connectFailureOf(error: unknown): { failure: ConnectFailure; code: string; words: string } {
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error
  if (!(first instanceof Error)) return { failure: 'protocol', code: 'UNKNOWN', words: '' }
  if (first.name === 'TimeoutError')
    return { failure: 'timeout', code: 'ETIMEDOUT', words: 'there was no answer in time' }
  const code = 'code' in first ? String(first.code) : ''
  const words = first.message.slice(0, LONGEST_WORDS)
  if (TLS_CODE.test(code)) return { failure: 'tls', code, words }
  if (first instanceof errors.HTTPParserError) return { failure: 'protocol', code: 'HTTP_PARSER', words }
  return { failure: BY_CODE[code] ?? 'protocol', code: code || first.name, words }
}
