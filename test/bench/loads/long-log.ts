/** A long log of deliveries for the delivery index, without an API server: only the index is measured. */

import { sortableName } from '../../../src/apis/ids.ts'
import {
  decodeOutcomeRecords,
  encodeLogRecord,
  type OutcomeRecord,
} from '../../../src/apis/outcome-segment.ts'
import type { DeliveryLines } from '../../../src/server/delivery-index/line-updates.ts'
import { segmentSpec } from '../../../src/webhooks/log/codec.ts'
import { readSegment } from '../../../src/webhooks/log/reader.ts'

export type LongLog = { lines: number; endpoints: number; perSegment: number }

const START = Date.UTC(2026, 0, 31)
/** One delivery of so many has failed; all others were sent. */
const FAILED_OF = 100
const PAYLOAD = JSON.stringify({ type: 'environment.started', data: { text: 'x'.repeat(100) } })

/** Segment by segment with its outcomes, as the watches bring them: as text, which is read as it is elsewhere. */
export function* longLog(log: LongLog, into: DeliveryLines): Generator<void> {
  let version = 0
  for (let made = 0; made < log.lines; made += log.perSegment) {
    version += 2
    takeSegment(log, into, { version, first: made })
    yield
  }
}

function takeSegment(log: LongLog, into: DeliveryLines, at: { version: number; first: number }): void {
  const count = Math.min(log.perSegment, log.lines - at.first)
  const events = Array.from({ length: count }, (_, place) => {
    const number = at.first + place
    const endpoint = number % log.endpoints
    const id = nameOf(number)
    const event = { id, namespace: `org-${endpoint % 50}`, type: 'environment.started', payload: PAYLOAD }
    return { event, targets: [{ name: `endpoint-${endpoint}`, uid: uidOf(endpoint) }] }
  })
  const metadata = { name: nameOf(at.version), resourceVersion: String(at.version) }
  into.segment(
    readSegment({ metadata, spec: JSON.parse(JSON.stringify(segmentSpec(events, 'bench', START))) }),
  )
  for (const _ of into.segmentsSeenUpTo(at.version));
  const records = events.map((_, index) =>
    encodeLogRecord(recordOf(at.first + index, { version: at.version, index })),
  )
  const version = at.version + 1
  into.outcomes({
    name: nameOf(version),
    version,
    writtenAt: START,
    writer: 'bench',
    records: decodeOutcomeRecords({ records: records.join('\n') }),
  })
}

function recordOf(number: number, position: { version: number; index: number }): OutcomeRecord {
  const attempt = { at: new Date(START + number).toISOString(), latencyMs: 12 }
  // The oldest of all has no next attempt.
  if (number === 0) return { kind: 'failed', position, attempt, nextAttemptAt: 0 }
  if (number % FAILED_OF === 0) return { kind: 'failed', position, attempt, nextAttemptAt: START + number }
  return { kind: 'sent', position, attempt: { ...attempt, code: 200 }, object: false }
}

export function uidOf(endpoint: number): string {
  return `9c1f0f3e-0000-4000-8000-${String(endpoint).padStart(12, '0')}`
}

/** The 26 characters of what was made as the `number`th. */
export function nameOf(number: number): string {
  const entropy = Buffer.alloc(10, number & 0xff)
  entropy.writeUInt32BE(number)
  return sortableName(START + number, entropy)
}
