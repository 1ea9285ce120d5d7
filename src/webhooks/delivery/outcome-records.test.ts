import { expect, it } from 'vitest'
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import { closesEntry, endsDelivery, statusFromRecords } from './delivery-state.ts'

const position = { version: 7, index: 0 }
const attempt = { at: '2026-01-31T12:00:00.000Z', latencyMs: 5, code: 500 }
const RECORDS: [string, OutcomeRecord, { closes: boolean; ends: boolean }][] = [
  [
    'a success without an object',
    { kind: 'sent', position, attempt, object: false },
    { closes: true, ends: true },
  ],
  [
    'a success whose object is owed',
    { kind: 'sent', position, attempt, object: true },
    { closes: false, ends: true },
  ],
  [
    'a failure before the last',
    { kind: 'failed', position, attempt, nextAttemptAt: 9 },
    { closes: false, ends: false },
  ],
  [
    'the last failure',
    { kind: 'failed', position, attempt, nextAttemptAt: 0 },
    { closes: false, ends: true },
  ],
  ['a move', { kind: 'moved', position }, { closes: true, ends: false }],
  ['a cancel', { kind: 'canceled', position, reason: 'EndpointDeleted' }, { closes: true, ends: true }],
  ['a reopening', { kind: 'reopened', position }, { closes: false, ends: false }],
  ['an end', { kind: 'ended', position }, { closes: false, ends: false }],
]

it.each(RECORDS)(
  'tells of %s whether the entry is closed and the delivery has ended',
  (_, record, { closes, ends }) => {
    expect(closesEntry(record)).toBe(closes)
    expect(endsDelivery(record)).toBe(ends)
  },
)

it('comes to the status that attempts make, and passes over the rest', () => {
  const nextAttemptAt = Date.parse('2026-01-31T12:00:30.000Z')
  const failed = { kind: 'failed', position, attempt, nextAttemptAt } as const
  const reopened = { kind: 'reopened', position } as const
  expect(statusFromRecords([])).toEqual({})
  expect(statusFromRecords([reopened, failed])).toMatchObject({
    state: 'retrying',
    attemptCount: 1,
    nextAttemptAt: '2026-01-31T12:00:30.000Z',
  })
  const sent = {
    kind: 'sent',
    position,
    attempt: { ...attempt, at: '2026-01-31T12:00:31.000Z', code: 200 },
    object: true,
  } as const
  const ended = statusFromRecords([failed, reopened, sent])
  expect(ended).toMatchObject({
    state: 'succeeded',
    attemptCount: 2,
    completedAt: '2026-01-31T12:00:31.005Z',
  })
  expect(ended).not.toHaveProperty('nextAttemptAt')
})

it('comes to an end without a next time where the last attempt failed', () => {
  const failures = Array.from({ length: 8 }, (_, n) => {
    const at = new Date(Date.parse(attempt.at) + n * 3_600_000).toISOString()
    const nextAttemptAt = n === 7 ? 0 : Date.parse(at) + 3_600_000
    return { kind: 'failed', position, attempt: { ...attempt, at }, nextAttemptAt } as const
  })
  const ended = statusFromRecords(failures)
  expect(ended).toMatchObject({
    state: 'exhausted',
    attemptCount: 8,
    completedAt: '2026-01-31T19:00:00.005Z',
  })
  expect(ended).not.toHaveProperty('nextAttemptAt')
})
