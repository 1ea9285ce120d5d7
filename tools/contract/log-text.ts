/** The text of the delivery log: samples of every kind of line, written by the product's own encoders. */
import type { AcceptedEvent, SegmentEvent } from '../../src/apis/delivery-segment.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../../src/apis/ids.ts'
import { encodeLogRecord, type LogRecord } from '../../src/apis/outcome-segment.ts'
import { type CancelReason, cancelReason } from '../../src/apis/webhook-delivery.ts'
import { encodeBakeResult } from '../../src/boxes/job/bake.ts'
import { segmentSpec } from '../../src/webhooks/log/codec.ts'
import { claimLine, doneLine, type KeyRecord, keptLine } from '../../src/webhooks/log/idempotency-keys.ts'
import { flatten } from './flatten.ts'

const WRITTEN_AT = Date.UTC(2026, 0, 2, 3, 4, 5, 6)
const ID = sortableName(WRITTEN_AT, new Uint8Array(NAME_ENTROPY_BYTES))
const AT = new Date(WRITTEN_AT).toISOString()
const POSITION = { version: 4711, index: 8 }
const TARGETS = [
  { name: 'orders', uid: '11111111-2222-4333-8444-555555555555' },
  { name: 'billing', uid: '66666666-7777-4888-8999-000000000000' },
]

const PLAIN: SegmentEvent = {
  id: ID,
  namespace: 'acme',
  type: 'order.created',
  payload: '{"a": [1, "ü\\n"]}',
}
const MARK = { id: ID, namespace: 'acme', key: 'a-key', fingerprint: 'a-fingerprint' }
const KEPT: KeyRecord = { ...MARK, kind: 'event', position: POSITION, deliveries: 2, firstDelivery: 5 }

const EVENTS: Readonly<Record<string, AcceptedEvent>> = {
  plain: { event: PLAIN, targets: TARGETS },
  'to nobody': { event: PLAIN, targets: [] },
  'with a key': { event: { ...PLAIN, key: 'a-key' }, targets: TARGETS },
  'with a key of a request': { event: { ...PLAIN, ...MARK }, targets: TARGETS },
  'of a redelivery': { event: { ...PLAIN, redeliveryOf: ID }, targets: TARGETS.slice(0, 1) },
  'of a redelivery with a key of a request': {
    event: { ...PLAIN, ...MARK, redeliveryOf: ID },
    targets: TARGETS.slice(0, 1),
  },
  claim: claimLine(MARK),
  done: doneLine(MARK),
  'kept event': keptLine(KEPT),
  'kept claim': keptLine({ ...KEPT, kind: 'claim' }),
  'kept done': keptLine({ ...KEPT, kind: 'done' }),
  'kept, by a clock that was ahead': keptLine({ ...KEPT, usedBy: WRITTEN_AT }),
}

const OUTCOMES: Readonly<Record<string, LogRecord>> = {
  sent: { kind: 'sent', position: POSITION, attempt: { at: AT, latencyMs: 12, code: 200 }, object: false },
  'sent, with an answer and an object owed': {
    kind: 'sent',
    position: POSITION,
    attempt: { at: AT, latencyMs: 12, code: 202, response: 'thanks "a lot"' },
    object: true,
  },
  'failed, with an answer': {
    kind: 'failed',
    position: POSITION,
    attempt: { at: AT, latencyMs: 12, code: 500, response: 'no' },
    nextAttemptAt: WRITTEN_AT + 5000,
  },
  'failed, without an answer, for the last time': {
    kind: 'failed',
    position: POSITION,
    attempt: { at: AT, latencyMs: 20_000, error: 'timeout: no response within 20 seconds' },
    nextAttemptAt: 0,
  },
  moved: { kind: 'moved', position: POSITION },
  creating: { kind: 'creating', position: POSITION },
  begin: { kind: 'begin', position: POSITION, attempts: 3, isAlone: false },
  'begin, alone': { kind: 'begin', position: POSITION, attempts: 0, isAlone: true },
  ended: { kind: 'ended', position: POSITION },
  ...Object.fromEntries(cancelReason.options.map((reason) => [`canceled, ${reason}`, canceled(reason)])),
  claim: { kind: 'claim', shards: [0, 7, 255] },
  'claim after a version': { kind: 'claim', shards: [7], after: 4711 },
  'claim after owners that ended': { kind: 'claim', shards: [7], after: 4711, ends: 3 },
  release: { kind: 'release', shards: [0, 7, 255] },
  'release after a version': { kind: 'release', shards: [7], after: 4711 },
  calm: { kind: 'calm', shards: [0, 7], after: 4711 },
}

function canceled(reason: CancelReason): LogRecord {
  return { kind: 'canceled', position: POSITION, reason }
}

export function logLines(): string[] {
  const events = Object.entries(EVENTS).map(([title, event]) => [
    title,
    segmentSpec([event], 'a-writer', WRITTEN_AT),
  ])
  const outcomes = Object.entries(OUTCOMES).map(([title, record]) => [title, encodeLogRecord(record)])
  return [
    ...flatten({ 'delivery segment': Object.fromEntries(events) }),
    ...flatten({ 'outcome segment': Object.fromEntries(outcomes) }),
    ...flatten({ 'bake result': bakeResults() }),
  ]
}

function bakeResults() {
  const digest = `sha256:${'a'.repeat(64)}`
  const web = { name: 'web', digest, verified: { at: AT, ok: true } }
  return {
    succeeded: encodeBakeResult({ version: 1, state: 'succeeded', services: [web] }),
    failed: encodeBakeResult({
      version: 1,
      state: 'failed',
      services: [{ name: 'web', verified: { at: AT, ok: false, code: 'wrong_credentials' } }],
      failure: { service: 'web', step: 'pull', code: 'wrong_credentials', message: 'unauthorized' },
    }),
  }
}
