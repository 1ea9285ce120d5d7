/** What an attempt means for its delivery (interface §6.3): 2xx within the deadline is success, all else is failure. */
import type { DeliveryAttempt } from '../../apis/webhook-delivery.ts'
import { sanitizeText } from '../../lib/plain-text.ts'

/** What came back of one HTTP attempt; the shape of the sender's outcome. */
export type Outcome =
  | { kind: 'response'; code: number; latencyMs: number; response: string }
  | { kind: 'failure'; error: string; latencyMs: number; code?: number }

/** Characters of an error or a response that are kept. */
const MAX_TEXT = 256

export type AttemptResult = { succeeded: boolean; attempt: DeliveryAttempt }

/** @param startedAt milliseconds since 1970 */
export function toAttemptResult(outcome: Outcome, startedAt: number): AttemptResult {
  const at = new Date(startedAt).toISOString()
  const latencyMs = Math.max(0, Math.round(outcome.latencyMs))
  if (outcome.kind === 'failure') {
    const code = outcome.code === undefined ? {} : { code: outcome.code }
    return {
      succeeded: false,
      attempt: { at, latencyMs, ...code, error: sanitizeText(outcome.error, MAX_TEXT) },
    }
  }
  const succeeded = outcome.code >= 200 && outcome.code <= 299
  const response = outcome.response === '' ? {} : { response: sanitizeText(outcome.response, MAX_TEXT) }
  const error = succeeded ? {} : { error: describeStatus(outcome.code) }
  return { succeeded, attempt: { at, code: outcome.code, latencyMs, ...error, ...response } }
}

function describeStatus(code: number): string {
  if (code >= 300 && code <= 399) return `HTTP ${code}: redirects are not followed`
  return `HTTP ${code}`
}
