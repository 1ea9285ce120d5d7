import { exponentialMs } from '../../lib/sleep.ts'
import { CloudError, type CloudRemedy } from '../cloud.ts'

/** What may be shown of the words that come with an error. */

const LONGEST = 400
/** A piece of a secret that is worth hiding: shorter ones tell too little, and are in every sentence. */
const PIECE = 6
/** Of one so long, such as a session's token, six letters tell nothing, and some are in every thousandth sentence by chance. */
const LONG = 100
const PIECE_OF_LONG = 12
const HIDDEN = 'What the provider said is left out, since it repeats what must not be shown.'

/** In this order. */
const CLEANINGS: readonly [RegExp, string][] = [
  // First, and each pattern takes one space: of any number, it would begin anew at each place of a long run.
  [/[\p{Cc}\s]+/gu, ' '],
  // What follows is the request with its headers.
  [/ ?The Canonical String for this request.*$/, ''],
  [/ ?Encoded authorization failure message: ?\S+/g, ''],
  [/ ?[([] ?(?:Service:[^)\]]*|request[ -]?id:[^)\]]*)[)\]]/gi, ''],
  [/ ?[;,]? ?request[ -]?id ?[:=] ?[\w-]+/gi, ''],
  [/Credential=\S+/g, 'Credential=(left out)'],
  [/\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b/g, '(left out)'],
  // Session tokens and their kin.
  [/[A-Za-z0-9+/=_-]{100,}/g, '(left out)'],
]

/**
 * One bounded line of `words`, without request ids and credentials; nothing of it, if it repeats a secret or a piece of one in
 * any form that it may have been sent or shown in.
 */
export function sanitizeMessage(words: string, secrets: readonly string[]): string {
  // A service that echoes may do so at any length; what is compared is bounded, and nothing else is shown.
  const seen = words.slice(0, LONGEST * 10)
  if (secrets.some((secret) => containsSecret(seen, secret))) return HIDDEN
  const clean = CLEANINGS.reduce((text, [pattern, by]) => text.replace(pattern, by), seen).trim()
  const cut = clean.length > LONGEST ? `${clean.slice(0, LONGEST - 1)}…` : clean
  return cut.toWellFormed()
}

/** Whether `text` has a piece of `secret` in it: as it is, or as JSON, a URL, HTML, hexadecimal or base64 writes it. */
export function containsSecret(text: string, secret: string): boolean {
  if (secret === '') return false
  const folded = text.toLowerCase()
  const length = secret.length < LONG ? PIECE : PIECE_OF_LONG
  const known = new Set(piecesOf(folded, length))
  const forms = new Set(formsOf(secret).map((form) => form.toLowerCase()))
  return [...forms].some((form) =>
    form.length < length ? folded.includes(form) : piecesOf(form, length).some((piece) => known.has(piece)),
  )
}

function piecesOf(text: string, length: number): string[] {
  return Array.from({ length: Math.max(0, text.length - length + 1) }, (_, at) => text.slice(at, at + length))
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const hex = bytes.toString('hex')
  const written = [
    secret,
    JSON.stringify(secret).slice(1, -1),
    onlyAscii(JSON.stringify(secret).slice(1, -1)),
    encodeURIComponent(secret.toWellFormed()),
    new URLSearchParams({ '': secret }).toString().slice(1),
    html(secret, '&quot;'),
    html(secret, '&#34;'),
    hex,
    (hex.match(/../g) ?? []).join(' '),
    ...[0, 1, 2].flatMap((before) => [base64(bytes, before, 'base64'), base64(bytes, before, 'base64url')]),
  ]
  // Each may be inside of another text, as JSON of most languages or of Go has it.
  return written.flatMap((text) => [text, JSON.stringify(text).slice(1, -1), goJson(text)])
}

function html(text: string, quote: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', quote)
    .replaceAll("'", '&#39;')
}

function onlyAscii(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, escaped)
}

function goJson(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replace(/[<>&\u2028\u2029]/g, escaped)
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** What stands for the secret alone where it is so many bytes, modulo 3, behind the start of what was encoded. */
function base64(secret: Buffer, before: number, alphabet: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(before), secret])
  const text = bytes.toString(alphabet).replace(/=+$/, '')
  // Characters at either end that depend on what is beside it.
  const from = before === 0 ? 0 : before + 1
  return text.slice(from, bytes.length % 3 === 0 ? undefined : -1)
}

/**
 * What the codes of AWS mean for Davit: those that the operations used here declare, the common ones of all services, and what
 * the adapter itself says where AWS said nothing.
 */

/**
 * How a failed attempt is repeated within the same call: `soon`; `later`, since something else is being done to the same thing;
 * `throttled`, since there were too many; `session`, once, with a session made anew. Absent: not at all.
 */
export type RetryKind = 'soon' | 'later' | 'throttled' | 'session'

type ErrorMeaning = { remedy: CloudRemedy; again?: RetryKind }

const PASSING: ErrorMeaning = { remedy: 'retry', again: 'soon' }
const CONTENDED: ErrorMeaning = { remedy: 'retry', again: 'later' }
const TOO_MANY: ErrorMeaning = { remedy: 'retry', again: 'throttled' }
const SESSION_ENDED: ErrorMeaning = { remedy: 'retry', again: 'session' }
/** Also said of sessions that the region does not know yet; and of regions that the account has not enabled. */
const NOT_KNOWN: ErrorMeaning = { remedy: 'permissions', again: 'session' }
const REFUSED: ErrorMeaning = { remedy: 'permissions' }
/** The account is full, or holds the thing in a way that only its owner can change. */
const ACCOUNT: ErrorMeaning = { remedy: 'permissions' }
const WRONG: ErrorMeaning = { remedy: 'spec' }
const GONE: ErrorMeaning = { remedy: 'gone' }
const LATER: ErrorMeaning = { remedy: 'retry' }

const BY_MEANING: readonly [ErrorMeaning, readonly string[]][] = [
  [
    PASSING,
    [
      'InternalServerError',
      'InternalServerException',
      'InternalFailure',
      'InternalError',
      'ServerException',
      'ServiceException',
      'ServiceUnavailable',
      'ServiceUnavailableException',
      'RequestTimeout',
      'RequestTimeoutException',
      'IDPCommunicationError',
      'KMSInternalException',
    ],
  ],
  [CONTENDED, ['TooManyUpdates', 'ConcurrentModificationException']],
  [
    TOO_MANY,
    [
      'Throttling',
      'ThrottlingException',
      'ThrottledException',
      'RequestLimitExceeded',
      'TooManyRequestsException',
      'SlowDown',
    ],
  ],
  [SESSION_ENDED, ['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired']],
  [NOT_KNOWN, ['UnrecognizedClient', 'UnrecognizedClientException', 'InvalidClientTokenId']],
  // Where the clock is to blame, the SDK has set it right by then, and the attempt is repeated whatever the code.
  [LATER, ['RequestExpired', 'RequestInTheFuture', 'RequestTimeTooSkewed']],
  // A page of a list, which has to be begun anew.
  [LATER, ['InvalidNextToken', 'InvalidNextTokenException']],
  [
    REFUSED,
    [
      'AccessDenied',
      'AccessDeniedException',
      'AuthFailure',
      'IncompleteSignature',
      'IncompleteSignatureException',
      'InvalidSignatureException',
      'MissingAuthenticationToken',
      'MissingAuthenticationTokenException',
      'OptInRequired',
      'SignatureDoesNotMatch',
      'UnauthorizedOperation',
      'RegionDisabledException',
      // Keys. SSM says InvalidKeyId of a key that is absent, disabled, or not to be used.
      'InvalidKeyId',
      'DisabledException',
      'InvalidKeyUsageException',
      'KMSAccessDeniedException',
      'KMSInvalidStateException',
      'KMSNotFoundException',
    ],
  ],
  [
    ACCOUNT,
    [
      'ParameterLimitExceeded',
      'ParameterMaxVersionLimitExceeded',
      'TooManyTagsError',
      'LimitExceededException',
      'ServiceQuotaExceededException',
    ],
  ],
  [
    WRONG,
    [
      'ParameterAlreadyExists',
      'HierarchyLevelLimitExceededException',
      'HierarchyTypeMismatchException',
      'IncompatiblePolicyException',
      'InvalidAllowedPatternException',
      'InvalidPolicyAttributeException',
      'InvalidPolicyTypeException',
      'ParameterPatternMismatchException',
      'PoliciesLimitExceededException',
      'UnsupportedParameterType',
      'UnsupportedOperationException',
      'InvalidFilterKey',
      'InvalidFilterOption',
      'InvalidFilterValue',
      'InvalidResourceType',
      'InvalidAction',
      'InvalidParameterCombination',
      'InvalidParameterException',
      'InvalidParameterValue',
      'MalformedPolicyDocument',
      'MalformedPolicyDocumentException',
      'MissingParameter',
      'PackedPolicyTooLarge',
      'PackedPolicyTooLargeException',
      'SerializationException',
      'UnknownOperationException',
      'ValidationError',
      'ValidationException',
      // Of the adapter: more parameters than a listing may have.
      'TooManyParameters',
    ],
  ],
  [GONE, ['ParameterNotFound', 'ParameterVersionNotFound', 'InvalidResourceId']],
  // Of the adapter, where AWS said nothing.
  [PASSING, ['Unreachable', 'TimedOut', 'UnreadableAnswer']],
  [LATER, ['Canceled', 'Busy', 'NoIdentity', 'Failed']],
]

export const ERROR_TABLE: ReadonlyMap<string, ErrorMeaning> = new Map(
  BY_MEANING.flatMap(([meaning, codes]) => codes.map((code) => [code, meaning] as const)),
)

/**
 * What a code means that is not in the table, by the status that came with it. Whatever is not surely the fault of a role or
 * of what was asked is tried again: a wrong advice to change something is worse than a wait.
 */
export function meaningOfUnknown(status: number): ErrorMeaning {
  if (status === 429) return TOO_MANY
  if (status === 401 || status === 403) return REFUSED
  if (status >= 400 && status < 500) return WRONG
  return PASSING
}

/** Attempts of one call. */
export const MAX_ATTEMPTS = 5
const LONGEST_MS = 4000
/** Before the second attempt; doubled before each further one. */
const FIRST_MS: Record<RetryKind | 'stale', number> = {
  soon: 100,
  later: 400,
  throttled: 400,
  session: 0,
  // Adds up to the time for which reads may lag.
  stale: 400,
}

/**
 * Milliseconds before the next attempt.
 * @param attempt how many were made, 1 or more
 * @param chance uniform in [0, 1)
 */
export function retryWait(why: RetryKind | 'stale', attempt: number, chance: number): number {
  const limits = { firstMs: FIRST_MS[why], longestMs: LONGEST_MS }
  return exponentialMs(attempt, limits) * (1 - chance / 2)
}

/** What one failed attempt means. */
export type ClassifiedError = ErrorMeaning & {
  code: string
  /** The attempt may have had its effect all the same. */
  unsure: boolean
  /** Words that came with it and are worth showing once they are cleaned. */
  words: string
}

/** The request never got to a server, so that nothing can have come of it. */
const NEVER_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])
/** It broke off, and nothing tells how far it had got. */
const BROKEN_OFF = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE', 'EPROTO'])
const CODE = /^[A-Za-z][A-Za-z0-9]{1,63}$/

/** @param error what the SDK threw, of one attempt */
export function classifyError(error: unknown): ClassifiedError {
  if (!(error instanceof Error)) return unanswered('Failed', true, '')
  const answer = answerOf(error)
  if (answer.status === undefined) return withoutAnswer(error)
  if (!answer.isService) return unanswered('UnreadableAnswer', true, `HTTP ${answer.status}`)
  const code = CODE.test(error.name) ? error.name : 'Unknown'
  const meaning = meaningOf(code, answer.status, answer.clockWasWrong)
  return { ...meaning, code, unsure: answer.status >= 500, words: error.message }
}

function meaningOf(code: string, status: number, clockWasWrong: boolean): ErrorMeaning {
  if (clockWasWrong) return { remedy: 'retry', again: 'soon' }
  return ERROR_TABLE.get(code) ?? meaningOfUnknown(status)
}

type Answer = {
  status: number | undefined
  /** In the service's own words, and not something that a proxy made up. */
  isService: boolean
  /** The SDK has corrected its clock by this answer. */
  clockWasWrong: boolean
}

function answerOf(error: Error): Answer {
  const metadata = fieldOf(error, '$metadata')
  const status = fieldOf(metadata, 'httpStatusCode') ?? fieldOf(fieldOf(error, '$response'), 'statusCode')
  return {
    status: typeof status === 'number' ? status : undefined,
    isService: fieldOf(error, '$fault') !== undefined,
    clockWasWrong: fieldOf(metadata, 'clockSkewCorrected') === true,
  }
}

function withoutAnswer(error: Error): ClassifiedError {
  const code = networkCodeOf(error)
  if (error.name === 'CredentialsProviderError' || error.name === 'ProviderError') {
    return unanswered('NoIdentity', false, error.message)
  }
  if (NEVER_SENT.has(code) || code.startsWith('ERR_SSL_')) return unanswered('Unreachable', false, code)
  if (code === 'ETIMEDOUT' && fieldOf(error, 'syscall') === 'connect')
    return unanswered('Unreachable', false, code)
  if (BROKEN_OFF.has(code)) return unanswered('Unreachable', true, code)
  // The name alone is given to resets too.
  if (error.name === 'TimeoutError' || code === 'ETIMEDOUT')
    return unanswered('TimedOut', true, 'no answer in time')
  return unanswered('Failed', true, error.name)
}

function unanswered(code: string, unsure: boolean, words: string): ClassifiedError {
  const meaning = ERROR_TABLE.get(code) ?? meaningOfUnknown(0)
  return { ...meaning, code, unsure, words }
}

/** Where several addresses were tried, the code of the first. */
function networkCodeOf(error: Error): string {
  const code = fieldOf(error, 'code')
  if (typeof code === 'string') return code
  const first = error instanceof AggregateError ? error.errors[0] : error.cause
  return first instanceof Error ? networkCodeOf(first) : ''
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

/** What the SDK asks to become somebody with a token that it was given. */
const OPERATION = 'sts:AssumeRoleWithWebIdentity'

/**
 * The client, once this process is somebody by it: a failure of that must not look like a refusal of what is asked afterwards.
 * Throws CloudError.
 */
export async function withIdentity<S extends { client: { config: { credentials(): Promise<unknown> } } }>(
  sdk: S,
): Promise<S> {
  try {
    await sdk.client.config.credentials()
    return sdk
  } catch (error) {
    const { remedy, code, words } = classifyError(error)
    const message =
      code === 'NoIdentity'
        ? `There is no identity to ask AWS with: ${sanitizeMessage(words, [])}`
        : sanitizeMessage(words, [])
    throw new CloudError(remedy, code, message, { operation: OPERATION })
  }
}
