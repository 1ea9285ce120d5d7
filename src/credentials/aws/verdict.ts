import { ERROR_TABLE, type ErrorMeaning, meaningOfUnknown } from './errors.ts'

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
