import { errors } from 'undici'
import type { BakeStep, POD_FAILURE_CODES } from '../../apis/bake.ts'
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

/** What registries get as the value of Basic authentication (RFC 7617). */
export function basicValue({ username, password }: RegistryLogin): string {
  return Buffer.from(`${username}:${password.reveal()}`, 'utf8').toString('base64')
}

export type ProbeLimits = { signal?: AbortSignal }

/** The request that ended the probe. */
export type ProbeStep = 'ping' | 'token' | 'manifest'

type ConnectFailure = 'dns' | 'refused' | 'tls' | 'timeout' | 'reset' | 'protocol' | 'forbidden-address'

export type FoundManifest = {
  kind: 'found'
  /** What a tag stood for. A pull by this digest verifies it. */
  digest: string
  mediaType: string
  /** Absent if the registry was only asked for the digest. */
  bytes?: Uint8Array | undefined
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
  retryAfter?: number | undefined
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
   * Asks for the manifest as a pull would, sending the login at most once per scheme so that no account is locked. Registries count
   * requests for the content of a manifest as pulls, so it asks for the digest where that is enough.
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
    return { failure: 'timeout', code: 'ETIMEDOUT', words: 'no response in time' }
  if (first instanceof ForbiddenAddressError) {
    const words = `${first.hostname} resolves to an address that bakes must not connect to`
    return { failure: 'forbidden-address', code: 'FORBIDDEN_ADDRESS', words }
  }
  const code = 'code' in first ? String(first.code) : ''
  const words = first.message.slice(0, LONGEST_WORDS)
  if (TLS_CODE.test(code)) return { failure: 'tls', code, words }
  if (first instanceof errors.HTTPParserError) return { failure: 'protocol', code: 'HTTP_PARSER', words }
  return { failure: BY_CODE[code] ?? 'protocol', code: code || first.name, words }
}

/**
 * Classifies a failed login or pull (interface §7): by the registry's response to our own probe (HTTP status and OCI
 * code), and only then by the output of the tool, which varies by version.
 */

export type PodFailureCode = (typeof POD_FAILURE_CODES)[number]

/** What the classification needs of a `ProbeResult`. */
export type Probed =
  | { kind: 'found' }
  | { kind: 'realm-refused' }
  | { kind: 'unreachable'; failure: string }
  | RegistryRefusal

export type Classified = { code: PodFailureCode; step: BakeStep }

type Rule = (refused: RegistryRefusal) => PodFailureCode | undefined

const hasCode = ({ codes }: RegistryRefusal, ...wanted: string[]) =>
  codes.some((code) => wanted.includes(code))

/** The first rule that returns a code decides. */
const RULES: readonly Rule[] = [
  (refused) => (refused.status === 429 || hasCode(refused, 'TOOMANYREQUESTS') ? 'rate_limited' : undefined),
  // ECR uses 403, others 401.
  ({ status, words }) =>
    (status === 401 || status === 403) && /\btoken (has|is) expired\b/i.test(words)
      ? 'token_expired'
      : undefined,
  // Without a login, registries report private images as missing or as requiring a login.
  ({ status, loggedIn }) =>
    !loggedIn && [401, 403, 404].includes(status) ? 'not_found_or_private' : undefined,
  ({ insufficientScope }) => (insufficientScope ? 'no_pull_permission' : undefined),
  // Some token endpoints reject a wrong password with 403; if a permission is missing, they name it.
  ({ step, status, words }) =>
    step === 'token' && status === 403 && /scope|permission|not (allowed|authorized)/i.test(words)
      ? 'no_pull_permission'
      : undefined,
  ({ step, status }) =>
    step === 'token' && (status === 401 || status === 403) ? 'wrong_credentials' : undefined,
  // Basic sends the password with the request itself; a token was issued for a valid login.
  ({ scheme, status }) =>
    status === 401 ? (scheme === 'bearer' ? 'no_pull_permission' : 'wrong_credentials') : undefined,
  (refused) => (refused.status === 403 || hasCode(refused, 'DENIED') ? 'no_pull_permission' : undefined),
  (refused) =>
    refused.status === 404 || hasCode(refused, 'NAME_UNKNOWN', 'MANIFEST_UNKNOWN')
      ? 'not_found_or_private'
      : undefined,
  ({ status }) => (status >= 500 ? 'unreachable' : undefined),
]

/** @param withLogin whether the service has a credential */
export function failureOfProbe(probed: Probed, withLogin: boolean): Classified {
  const code = codeOfProbe(probed)
  const atLogin =
    probed.kind === 'realm-refused' ||
    code === 'wrong_credentials' ||
    (probed.kind === 'refused' && probed.step !== 'manifest')
  return { code, step: withLogin && atLogin ? 'login' : 'pull' }
}

function codeOfProbe(probed: Probed): PodFailureCode {
  if (probed.kind === 'realm-refused') return 'host_not_allowed'
  if (probed.kind === 'unreachable') {
    if (probed.failure === 'dns') return 'dns_failed'
    return probed.failure === 'tls' ? 'tls_failed' : 'unreachable'
  }
  if (probed.kind === 'found') return 'tool_failed'
  for (const rule of RULES) {
    const code = rule(probed)
    if (code !== undefined) return code
  }
  return 'tool_failed'
}

const NO_SPACE = /no space left on device|disk quota exceeded|file too large/i

/** For pulls after a successful probe: mostly network failures. */
const TOOL_OUTPUT: readonly [RegExp, PodFailureCode][] = [
  // From our own egress proxy, which the tool goes through.
  [/that bakes must not connect to/, 'host_not_allowed'],
  [/too ?many ?requests|(status code|HTTP status|unexpected status)[^\n]{0,40}?\b429\b/i, 'rate_limited'],
  [/\btoken (has|is) expired\b/i, 'token_expired'],
  [/no image found in (image index|manifest list)/, 'platform_missing'],
  [/x509:|\btls: |server gave HTTP response to HTTPS client/i, 'tls_failed'],
  [/no such host|server misbehaving|name resolution/i, 'dns_failed'],
  [
    /connection (refused|reset)|i\/o timeout|no route to host|network is unreachable|unexpected EOF|\bEOF$|deadline exceeded|handshake timeout|broken pipe|(status code|HTTP status|unexpected status)[^\n]{0,40}?\b50[0-4]\b/im,
    'unreachable',
  ],
  [/denied|unauthorized|authentication required/i, 'no_pull_permission'],
  [/manifest unknown|name unknown|blob unknown|not found/i, 'not_found_or_private'],
]

/** The tool repeats image names, which may contain any words. */
function withoutImageNames(stderr: string, image: string | undefined): string {
  if (image === undefined) return stderr
  const name = image.replace(/@.*$|:[^/:]*$/, '')
  const path = name.slice(name.indexOf('/') + 1)
  // A single part may also be a word of the tool's own, so it is removed only from URLs.
  const distinctPath = path.includes('/') ? path : `/v2/${path}/`
  return [image, name, distinctPath].reduce((text, part) => text.replaceAll(part, ''), stderr)
}

type FailedPull = {
  probed: Probed
  withLogin: boolean
  /** The whole output of the tool. */
  stderr: string
  /** The image with its host. */
  image?: string
}

export function failureOfPull({ probed, withLogin, stderr: output, image }: FailedPull): Classified {
  const stderr = withoutImageNames(output, image)
  if (NO_SPACE.test(stderr)) return { code: 'out_of_disk', step: 'store' }
  if (probed.kind !== 'found') return failureOfProbe(probed, withLogin)
  const code = TOOL_OUTPUT.find(([pattern]) => pattern.test(stderr))?.[1] ?? 'tool_failed'
  return { code: code === 'no_pull_permission' && !withLogin ? 'not_found_or_private' : code, step: 'pull' }
}
