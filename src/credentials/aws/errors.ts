/** What failures of AWS calls mean: which are retried and how, what an owner can do about them, and what may be shown of their messages. */
import { fieldOf } from '../../lib/json.ts'
import { wholeWord } from '../../lib/redact.ts'
import { exponentialMs } from '../../lib/time.ts'
import { CloudError, type CloudRemedy } from '../cloud.ts'

const LONGEST = 400
/** Minimum length of a leaked piece: shorter ones reveal too little, and occur in any text. */
const PIECE = 6
/** In secrets as long as a session token, 6 characters reveal nothing, and often match by chance. */
const LONG = 100
const PIECE_OF_LONG = 12
/** Shorter forms are part of many words, and count only as whole words. */
const SHORT = 4
const HIDDEN = 'The provider message is omitted because it contains part of a secret.'

const CLEANINGS: readonly [RegExp, string][] = [
  // First, so that later patterns match one space; `\s*` would backtrack from each position of a long run.
  [/[\p{Cc}\s]+/gu, ' '],
  // The request with its headers follows.
  [/ ?The Canonical String for this request.*$/, ''],
  [/ ?Encoded authorization failure message: ?\S+/g, ''],
  [/ ?[([] ?(?:Service:[^)\]]*|request[ -]?id:[^)\]]*)[)\]]/gi, ''],
  [/ ?[;,]? ?request[ -]?id ?[:=] ?[\w-]+/gi, ''],
  [/Credential=\S+/g, 'Credential=(omitted)'],
  [/\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b/g, '(omitted)'],
  // Session tokens and the like.
  [/[A-Za-z0-9+/=_-]{100,}/g, '(omitted)'],
]

/**
 * One bounded line of `message`, without request ids and credentials; a placeholder if it repeats a secret or a piece of one in any
 * encoding.
 */
export function sanitizeMessage(message: string, secrets: readonly string[]): string {
  // Bounds the comparison; nothing beyond is shown.
  const seen = message.slice(0, LONGEST * 10)
  if (secrets.some((secret) => containsSecret(seen, secret))) return HIDDEN
  const clean = CLEANINGS.reduce((text, [pattern, by]) => text.replace(pattern, by), seen).trim()
  const cut = clean.length > LONGEST ? `${clean.slice(0, LONGEST - 1)}…` : clean
  return cut.toWellFormed()
}

/** Whether `text` contains a piece of `secret`: plain, or as JSON, URL, HTML, hexadecimal or base64. */
export function containsSecret(text: string, secret: string): boolean {
  if (secret === '') return false
  const folded = text.toLowerCase()
  const length = secret.length < LONG ? PIECE : PIECE_OF_LONG
  const known = new Set(piecesOf(folded, length))
  const forms = new Set(formsOf(secret).map((form) => form.toLowerCase()))
  return [...forms].some((form) => {
    if (form.length < SHORT) return form !== '' && wholeWord(form).test(folded)
    if (form.length < length) return folded.includes(form)
    return piecesOf(form, length).some((piece) => known.has(piece))
  })
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
  // Each may be nested in JSON, of most languages or of Go.
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

/** The base64 characters that depend on the secret alone, if it starts `before` bytes (modulo 3) into the encoded text. */
function base64(secret: Buffer, before: number, alphabet: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(before), secret])
  const text = bytes.toString(alphabet).replace(/=+$/, '')
  // Drops the characters at either end that depend on neighbouring bytes.
  const from = before === 0 ? 0 : before + 1
  return text.slice(from, bytes.length % 3 === 0 ? undefined : -1)
}

/**
 * How an attempt is retried within the same call: `soon`; `later`, on contention; `throttled`; `session`, once, with a new session.
 * Absent: not at all.
 */
export type RetryKind = 'soon' | 'later' | 'throttled' | 'session'

type ErrorMeaning = { remedy: CloudRemedy; again?: RetryKind }

const PASSING: ErrorMeaning = { remedy: 'retry', again: 'soon' }
const CONTENDED: ErrorMeaning = { remedy: 'retry', again: 'later' }
const TOO_MANY: ErrorMeaning = { remedy: 'retry', again: 'throttled' }
const SESSION_ENDED: ErrorMeaning = { remedy: 'retry', again: 'session' }
/** Also for sessions that the region does not know yet, and for regions that the account has not enabled. */
const NOT_KNOWN: ErrorMeaning = { remedy: 'permissions', again: 'session' }
const REFUSED: ErrorMeaning = { remedy: 'permissions' }
/** A quota of the account, or a state that only its owner can change. */
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
  // If the clock was wrong, the SDK has corrected it, and the attempt is retried whatever the code.
  [LATER, ['RequestExpired', 'RequestInTheFuture', 'RequestTimeTooSkewed']],
  // The listing has to start over.
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
      // KMS. SSM reports InvalidKeyId for a key that is absent, disabled, or not permitted.
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
      // Davit's own: more parameters than a listing may have.
      'TooManyParameters',
    ],
  ],
  [GONE, ['ParameterNotFound', 'ParameterVersionNotFound', 'InvalidResourceId']],
  // Davit's own, without a response from AWS.
  [PASSING, ['Unreachable', 'TimedOut', 'UnreadableResponse']],
  [LATER, ['Canceled', 'Busy', 'NoIdentity', 'Failed']],
]

export const ERROR_TABLE: ReadonlyMap<string, ErrorMeaning> = new Map(
  BY_MEANING.flatMap(([meaning, codes]) => codes.map((code) => [code, meaning] as const)),
)

/** For codes that are not in the table, by HTTP status. In doubt it retries: wrong advice to change something is worse than a wait. */
export function meaningOfUnknown(status: number): ErrorMeaning {
  if (status === 429) return TOO_MANY
  if (status === 401 || status === 403) return REFUSED
  if (status >= 400 && status < 500) return WRONG
  return PASSING
}

export const MAX_ATTEMPTS = 5
const LONGEST_MS = 4000
/** Before the second attempt; doubles with each further one. */
const FIRST_MS: Record<RetryKind | 'stale', number> = {
  soon: 100,
  later: 400,
  throttled: 400,
  session: 0,
  // Adds up to the lag of reads.
  stale: 400,
}

/** Milliseconds before the next attempt. @param attempt attempts so far, 1 or more @param chance uniform in [0, 1) */
export function retryWait(why: RetryKind | 'stale', attempt: number, chance: number): number {
  const limits = { firstMs: FIRST_MS[why], longestMs: LONGEST_MS }
  return exponentialMs(attempt, limits) * (1 - chance / 2)
}

export type ClassifiedError = ErrorMeaning & {
  code: string
  /** The attempt may have had its effect. */
  unsure: boolean
  /** Its message, to be sanitized. */
  words: string
}

/** The request never reached a server, so it had no effect. */
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
/** Interrupted; nothing tells how far it got. */
const BROKEN_OFF = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE', 'EPROTO'])
const CODE = /^[A-Za-z][A-Za-z0-9]{1,63}$/

/** @param error of one attempt, from the SDK */
export function classifyError(error: unknown): ClassifiedError {
  if (!(error instanceof Error)) return unanswered('Failed', true, '')
  const answer = answerOf(error)
  if (answer.status === undefined) return withoutAnswer(error)
  if (!answer.isService) return unanswered('UnreadableResponse', true, `HTTP ${answer.status}`)
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
  /** From the service, not from a proxy. */
  isService: boolean
  /** The SDK corrected its clock by this response. */
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
  // Resets have this name, too.
  if (error.name === 'TimeoutError' || code === 'ETIMEDOUT')
    return unanswered('TimedOut', true, 'no response in time')
  return unanswered('Failed', true, error.name)
}

function unanswered(code: string, unsure: boolean, words: string): ClassifiedError {
  const meaning = ERROR_TABLE.get(code) ?? meaningOfUnknown(0)
  return { ...meaning, code, unsure, words }
}

/** If several addresses were tried, the code of the first. */
function networkCodeOf(error: Error): string {
  const code = fieldOf(error, 'code')
  if (typeof code === 'string') return code
  const first = error instanceof AggregateError ? error.errors[0] : error.cause
  return first instanceof Error ? networkCodeOf(first) : ''
}

/** What the SDK calls for a web identity. */
const OPERATION = 'sts:AssumeRoleWithWebIdentity'

/** The client, once it has credentials: their failure must not look like a refusal of the actual call. @throws CloudError */
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
        ? `No AWS credentials were found: ${sanitizeMessage(words, [])}`
        : sanitizeMessage(words, [])
    throw new CloudError(remedy, code, message, { operation: OPERATION })
  }
}
