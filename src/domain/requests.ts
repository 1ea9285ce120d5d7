/** Requests by annotation (`davit.dev/...-requested-at`): a time, acted on once per value. */
import { MESSAGE_ID } from '../api/identifiers.ts'

export type Request =
  | { kind: 'none' }
  /** The value was acted on before, or is older than the object (it came with a copy or from Git). */
  | { kind: 'old'; value: string }
  | { kind: 'new'; value: string; at: number }
  | { kind: 'invalid'; value: string; message: string }

const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/
const MAX_VALUE = 256

/** @param handled the value that was acted on last @param createdAt of the object, milliseconds since 1970 */
export function readRequest(
  value: string | undefined,
  handled: string | undefined,
  createdAt: number,
): Request {
  if (value === undefined || value === '') return { kind: 'none' }
  if (value === handled) return { kind: 'old', value }
  const at = RFC3339.test(value) && value.length <= MAX_VALUE ? Date.parse(value) : Number.NaN
  if (Number.isNaN(at)) {
    const message = `"${value.slice(0, 64)}" is not a time such as 2026-01-31T12:00:00Z`
    return { kind: 'invalid', value: value.slice(0, MAX_VALUE), message }
  }
  // creationTimestamp has whole seconds: a request made in the object's first second is not older than it.
  if (at < createdAt - 1000) return { kind: 'old', value }
  return { kind: 'new', value, at }
}

/** Redeliveries that one annotation may ask for. */
export const MAX_REDELIVERIES = 100

export type RedeliverItem = { deliveryId: string; at: number; raw: string }
export type RedeliverRequest = { items: RedeliverItem[]; invalid: string[] }

/**
 * The items of `msg_...@<time>[,msg_...@<time>...]` that were not acted on yet.
 * @param handled the whole value that was acted on last
 */
export function readRedeliverRequest(
  value: string | undefined,
  handled: string | undefined,
  createdAt: number,
): RedeliverRequest {
  if (!value || value === handled) return { items: [], invalid: [] }
  const done = new Set((handled ?? '').split(',').map((part) => part.trim()))
  const parts = value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '' && !done.has(part))
  const request: RedeliverRequest = { items: [], invalid: [] }
  for (const raw of parts.slice(0, MAX_REDELIVERIES)) {
    const [deliveryId = '', time = ''] = raw.split('@')
    const when = readRequest(time, undefined, createdAt)
    if (MESSAGE_ID.test(deliveryId) && when.kind === 'new')
      request.items.push({ deliveryId, at: when.at, raw })
    else if (when.kind !== 'old') request.invalid.push(raw.slice(0, 64))
  }
  return request
}
