import { errors } from 'undici'
import type { SecretText } from '../../lib/redact.ts'
import { ForbiddenAddressError } from '../../net/dial.ts'

/** How a registry responds to the probe that precedes a pull, and why it could not be reached. */

/** One image, by the parts of its reference. */
export type ImageRequest = {
  /** Canonical host, such as `docker.io` or `registry.example.com:5000`. */
  registry: string
  /** Such as `acme/api` or `library/postgres`. */
  repository: string
  /** A tag or a digest. */
  reference: string
}

export type RegistryLogin = { username: string; password: SecretText }

export type ProbeLimits = { signal?: AbortSignal }

/** The request that ended the probe. */
export type ProbeStep = 'ping' | 'token' | 'manifest'

type ConnectFailure = 'dns' | 'refused' | 'tls' | 'timeout' | 'reset' | 'protocol' | 'forbidden-address'

export type FoundManifest = {
  kind: 'found'
  /** Computed from the response: what a tag stood for. */
  digest: string
  mediaType: string
  bytes: Uint8Array
  /** Whether the login was required, and is thus verified. */
  loggedIn: boolean
}

/** The registry, or its token endpoint, rejected a request. */
export type RegistryRefusal = {
  kind: 'refused'
  step: ProbeStep
  status: number
  /** Codes of the OCI distribution specification, such as `MANIFEST_UNKNOWN`, in the order of the response. */
  codes: readonly string[]
  /** The server's own text, bounded. It may contain anything. */
  words: string
  /** Whether the request carried the login, or a token obtained with it. */
  loggedIn: boolean
  /** How the rejected request was authorized. */
  scheme: 'none' | 'basic' | 'bearer'
  /** The challenge says that the login is known and lacks the right. */
  insufficientScope: boolean
  /** Seconds, if the server sent them. */
  retryAfter?: number
}

export type ProbeResult =
  | FoundManifest
  | RegistryRefusal
  /** The registry wants the password sent to a token endpoint that is not permitted. */
  | { kind: 'realm-refused'; realm: string; reason: string }
  /** `code` is Node's, such as `ENOTFOUND` or `CERT_HAS_EXPIRED`. */
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
   * Requests the manifest as a pull would, sending the login at most once per scheme so that no account is locked.
   * Throws only if its signal aborts.
   */
  manifest(image: ImageRequest, login: RegistryLogin | undefined, limits?: ProbeLimits): Promise<ProbeResult>
}

const BY_CODE: Readonly<Record<string, ConnectFailure>> = {
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

/** Classifies a failed request by Node's code; if several addresses were tried, by that of the first. */
export function connectFailureOf(error: unknown): { failure: ConnectFailure; code: string; words: string } {
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error
  if (!(first instanceof Error)) return { failure: 'protocol', code: 'UNKNOWN', words: '' }
  if (first.name === 'TimeoutError')
    return { failure: 'timeout', code: 'ETIMEDOUT', words: 'there was no answer in time' }
  if (first instanceof ForbiddenAddressError) {
    const words = `${first.hostname} is at an address that no bake connects to`
    return { failure: 'forbidden-address', code: 'FORBIDDEN_ADDRESS', words }
  }
  const code = 'code' in first ? String(first.code) : ''
  const words = first.message.slice(0, LONGEST_WORDS)
  if (TLS_CODE.test(code)) return { failure: 'tls', code, words }
  if (first instanceof errors.HTTPParserError) return { failure: 'protocol', code: 'HTTP_PARSER', words }
  return { failure: BY_CODE[code] ?? 'protocol', code: code || first.name, words }
}
