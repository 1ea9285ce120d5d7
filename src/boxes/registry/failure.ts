/**
 * What a failed login or pull was, from what the registry said to our own request (HTTP status and OCI code), and only then from
 * the words of the tool, which vary by version (interface §7).
 */
import type { BakeStep, POD_FAILURE_CODES } from '../../apis/bake.ts'

export type PodFailureCode = (typeof POD_FAILURE_CODES)[number]

/** What a registry answered, as the probe tells it. */
export type Refused = {
  kind: 'refused'
  step: 'ping' | 'token' | 'manifest'
  status: number
  /** OCI codes. */
  codes: readonly string[]
  words: string
  /** The request carried the login, or a token that was got with it. */
  loggedIn: boolean
  scheme: 'none' | 'basic' | 'bearer'
  insufficientScope: boolean
}

export type Probed =
  | { kind: 'found' }
  | { kind: 'realm-refused' }
  | { kind: 'unreachable'; failure: string }
  | Refused

export type Classified = { code: PodFailureCode; step: BakeStep }

type Rule = (refused: Refused) => PodFailureCode | undefined

const hasCode = ({ codes }: Refused, ...wanted: string[]) => codes.some((code) => wanted.includes(code))

/** The first that says something is right. */
const RULES: readonly Rule[] = [
  (refused) => (refused.status === 429 || hasCode(refused, 'TOOMANYREQUESTS') ? 'rate_limited' : undefined),
  // ECR says so with 403, others with 401.
  ({ status, words }) =>
    (status === 401 || status === 403) && /\btoken (has|is) expired\b/i.test(words)
      ? 'token_expired'
      : undefined,
  // To nobody, registries say of private images that they are not there, or that one has to log in.
  ({ status, loggedIn }) =>
    !loggedIn && [401, 403, 404].includes(status) ? 'not_found_or_private' : undefined,
  ({ insufficientScope }) => (insufficientScope ? 'no_pull_right' : undefined),
  // Some services for tokens refuse a wrong password with 403; where it is the right that is missing, they name it.
  ({ step, status, words }) =>
    step === 'token' && status === 403 && /scope|permission|not (allowed|authorized)/i.test(words)
      ? 'no_pull_right'
      : undefined,
  ({ step, status }) =>
    step === 'token' && (status === 401 || status === 403) ? 'wrong_credentials' : undefined,
  // By Basic the password goes with the request itself; a token was given for a login that is good.
  ({ scheme, status }) =>
    status === 401 ? (scheme === 'bearer' ? 'no_pull_right' : 'wrong_credentials') : undefined,
  (refused) => (refused.status === 403 || hasCode(refused, 'DENIED') ? 'no_pull_right' : undefined),
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
  if (probed.kind === 'realm-refused') return 'realm_refused'
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

const NO_ROOM = /no space left on device|disk quota exceeded|file too large/i

/** What the tool says where the registry has said yes before: mostly what went wrong on the way. */
const WORDS: readonly [RegExp, PodFailureCode][] = [
  // Of our own gate, by which the tool goes.
  [/that no bake connects to/, 'realm_refused'],
  [/too ?many ?requests|(status code|HTTP status|unexpected status)[^\n]{0,40}?\b429\b/i, 'rate_limited'],
  [/\btoken (has|is) expired\b/i, 'token_expired'],
  [/no image found in (image index|manifest list)/, 'platform_missing'],
  [/x509:|\btls: |server gave HTTP response to HTTPS client/i, 'tls_failed'],
  [/no such host|server misbehaving|name resolution/i, 'dns_failed'],
  [
    /connection (refused|reset)|i\/o timeout|no route to host|network is unreachable|unexpected EOF|\bEOF$|deadline exceeded|handshake timeout|broken pipe|(status code|HTTP status|unexpected status)[^\n]{0,40}?\b50[0-4]\b/im,
    'unreachable',
  ],
  [/denied|unauthorized|authentication required/i, 'no_pull_right'],
  [/manifest unknown|name unknown|blob unknown|not found/i, 'not_found_or_private'],
]

/** Names of images, which may be any words: the tool repeats them. */
function withoutNames(stderr: string, image: string | undefined): string {
  if (image === undefined) return stderr
  const name = image.replace(/@.*$|:[^/:]*$/, '')
  const path = name.slice(name.indexOf('/') + 1)
  // Of one part it may be a word of the tool's own, but for where a URL has it.
  const inWords = path.includes('/') ? path : `/v2/${path}/`
  return [image, name, inWords].reduce((text, one) => text.replaceAll(one, ''), stderr)
}

type FailedPull = {
  probed: Probed
  withLogin: boolean
  /** All that the tool said. */
  stderr: string
  /** What it was told to pull, with its host. */
  image?: string
}

/** Of a pull that the tool gave up. */
export function failureOfPull({ probed, withLogin, stderr: said, image }: FailedPull): Classified {
  const stderr = withoutNames(said, image)
  if (NO_ROOM.test(stderr)) return { code: 'no_room', step: 'store' }
  if (probed.kind !== 'found') return failureOfProbe(probed, withLogin)
  const code = WORDS.find(([pattern]) => pattern.test(stderr))?.[1] ?? 'tool_failed'
  return { code: code === 'no_pull_right' && !withLogin ? 'not_found_or_private' : code, step: 'pull' }
}
