import { errors } from 'undici'
import type { SecretText } from '../../lib/redact.ts'

/** What a registry says to somebody who wants to pull, before an image is pulled. */

/** One image, by the parts of its reference. */
export type ImageRequest = {
  /** Canonical host, as `docker.io` or `registry.example.com:5000`. */
  registry: string
  /** As `acme/api` or `library/postgres`. */
  repository: string
  /** A tag or a digest. */
  reference: string
}

export type RegistryLogin = { username: string; password: SecretText }

export type ProbeLimits = { signal?: AbortSignal }

/** At which request it ended: the first one to the registry, the one for a token, or the one for the manifest. */
export type ProbeStep = 'ping' | 'token' | 'manifest'

type ConnectFailure = 'dns' | 'refused' | 'tls' | 'timeout' | 'reset' | 'protocol' | 'forbidden-address'

/** Where a manifest was found. */
export type FoundManifest = {
  kind: 'found'
  /** Of the very bytes that were answered: what a tag stood for. */
  digest: string
  mediaType: string
  bytes: Uint8Array
  /** Whether the login was asked for, and so proved. */
  loggedIn: boolean
}

/** The registry, or its service for tokens, said no. */
export type RegistryRefusal = {
  kind: 'refused'
  step: ProbeStep
  status: number
  /** Of the OCI distribution specification, as `MANIFEST_UNKNOWN`; in the order in which they were said. */
  codes: readonly string[]
  /** The server's own words, bounded. They may hold anything that the server makes up. */
  words: string
  /** Whether the request carried the login, or a token that was got with it. */
  loggedIn: boolean
  /** How the request that was refused was authorized. */
  scheme: 'none' | 'basic' | 'bearer'
  /** The challenge says that the login is known and has not the right. */
  insufficientScope: boolean
  /** Seconds, where it said when to come again. */
  retryAfter?: number
}

export type ProbeResult =
  | FoundManifest
  | RegistryRefusal
  /** The registry sends people somewhere else with their password, where it does not go. */
  | { kind: 'realm-refused'; realm: string; reason: string }
  /** `code` is as of Node, such as `ENOTFOUND` or `CERT_HAS_EXPIRED`. */
  | {
      kind: 'unreachable'
      step: ProbeStep
      host: string
      failure: ConnectFailure
      code: string
      words: string
    }

export interface RegistryProbe {
  /**
   * Asks for the manifest as a pull would, at most once with the login per way of logging in, so that nobody is locked out.
   * Never throws but when its signal aborts.
   */
  manifest(image: ImageRequest, login: RegistryLogin | undefined, limits?: ProbeLimits): Promise<ProbeResult>
}

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
