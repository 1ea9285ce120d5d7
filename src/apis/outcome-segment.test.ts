import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import {
  decodeLogRecords,
  decodeOutcomeRecord,
  encodeLogRecord,
  type LogRecord,
  type OutcomeRecord,
  outcomeSegmentSpec,
} from './outcome-segment.ts'
import { cancelReason, type DeliveryAttempt, webhookDeliveryStatus } from './webhook-delivery.ts'

const AT = '2026-01-31T12:00:00.123Z'

const position = fc.record({
  version: fc.integer({ min: 0, max: 999_999_999_999_999 }),
  index: fc.integer({ min: 0, max: 4095 }),
})
const time = fc.integer({ min: 0, max: Date.parse('9999-12-31T23:59:59.999Z') })
/** Texts without control characters, which is how attempts are recorded. */
const plain = fc.string({ unit: 'grapheme', maxLength: 256 }).map((text) => text.slice(0, 256).toWellFormed())

const attempt: fc.Arbitrary<DeliveryAttempt> = fc
  .record(
    {
      at: time.map((ms) => new Date(ms).toISOString()),
      latencyMs: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
      code: fc.integer({ min: 100, max: 599 }),
      error: plain,
      response: plain,
    },
    { requiredKeys: ['at', 'latencyMs'] },
  )
  .map((made) => ({ ...made }))

const record: fc.Arbitrary<OutcomeRecord> = fc.oneof(
  fc.record({ kind: fc.constant('sent' as const), position, attempt, object: fc.boolean() }),
  fc.record({ kind: fc.constant('failed' as const), position, attempt, nextAttemptAt: time }),
  fc.record({ kind: fc.constant('moved' as const), position }),
  fc.record({
    kind: fc.constant('begin' as const),
    position,
    attempts: fc.nat({ max: 8 }),
    isAlone: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('canceled' as const),
    position,
    reason: fc.constantFrom(...cancelReason.options),
  }),
)

describe('a record that was written', () => {
  test('is read back the same', () => {
    fc.assert(
      fc.property(record, (given) => {
        expect(decodeOutcomeRecord(encodeLogRecord(given))).toEqual(given)
      }),
    )
  })

  test('says the same however its facts are spaced', () => {
    const short = fc.string({ unit: 'grapheme', maxLength: 14 }).map((text) => text.toWellFormed())
    const answered = attempt.chain((made) => short.map((response) => ({ ...made, response })))
    const sent = fc.record({
      kind: fc.constant('sent' as const),
      position,
      attempt: answered,
      object: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.oneof(record, sent), (given) => {
        const line = encodeLogRecord(given)
        expect(decodeOutcomeRecord(line.replace(/\}$/, ' }'))).toEqual(decodeOutcomeRecord(line))
      }),
    )
  })

  test('is one line that an outcome segment takes', () => {
    fc.assert(
      fc.property(record, (given) => {
        const text = encodeLogRecord(given)
        expect(text).not.toContain('\n')
        const spec = { writtenAt: 0, writer: 'davit-0', lowWater: '1', records: text }
        expect(outcomeSegmentSpec.safeParse(spec).success).toBe(true)
      }),
    )
  })

  test('keeps spaces in texts as they are', () => {
    const given: OutcomeRecord = {
      kind: 'failed',
      position: { version: 1, index: 2 },
      attempt: { at: AT, latencyMs: 3, code: 500, error: ' two  spaces ', response: '   ' },
      nextAttemptAt: 4,
    }
    expect(decodeOutcomeRecord(encodeLogRecord(given))).toEqual(given)
  })
})

test.each([
  {
    given: { kind: 'moved', position: { version: 48213, index: 7 } },
    want: '48213/7 moved',
  },
  {
    given: { kind: 'canceled', position: { version: 48213, index: 7 }, reason: 'HeldTooLong' },
    want: '48213/7 canceled {"reason":"HeldTooLong"}',
  },
  {
    given: {
      kind: 'sent',
      position: { version: 48213, index: 7 },
      attempt: { at: AT, latencyMs: 41, code: 204 },
      object: false,
    },
    want: `48213/7 sent {"at":${Date.parse(AT)},"ms":41,"code":204}`,
  },
  {
    given: {
      kind: 'sent',
      position: { version: 48213, index: 7 },
      attempt: { at: AT, latencyMs: 41, code: 200, response: 'ok' },
      object: true,
    },
    want: `48213/7 sent {"at":${Date.parse(AT)},"ms":41,"code":200,"response":"ok","object":1}`,
  },
  {
    given: {
      kind: 'failed',
      position: { version: 48213, index: 7 },
      attempt: { at: AT, latencyMs: 20_000, error: 'no response within 20 s' },
      nextAttemptAt: 1_769_860_830_000,
    },
    want: `48213/7 failed {"at":${Date.parse(AT)},"ms":20000,"error":"no response within 20 s","next":1769860830000}`,
  },
] satisfies { given: OutcomeRecord; want: string }[])(
  '$given.kind is written as $want',
  ({ given, want }) => {
    // What one version has written the next one must read: this form is stored.
    expect(encodeLogRecord(given)).toBe(want)
    expect(decodeOutcomeRecord(want)).toEqual(given)
  },
)

test.each([
  { given: '', why: 'nothing' },
  { given: '48213/7', why: 'no kind' },
  { given: '48213/7 ', why: 'an empty kind' },
  { given: 'x moved', why: 'no position' },
  { given: '48213/7 claim {"epoch":3}', why: 'a kind of a later version' },
  { given: '48213/7 claim {"at":1,"ms":1}', why: 'an unknown kind with facts of an attempt' },
  { given: '48213/7 sent', why: 'no facts' },
  { given: '48213/7 sent {', why: 'facts that are no JSON' },
  { given: '48213/7 sent null', why: 'facts that are no object' },
  { given: '48213/7 sent []', why: 'a list' },
  { given: '48213/7 sent {"at":"1","ms":1}', why: 'a time as text' },
  { given: '48213/7 sent {"at":1}', why: 'no latency' },
  { given: '48213/7 failed {"ms":1}', why: 'no time' },
  { given: '48213/7 sent {"at":8640000000000001,"ms":1}', why: 'a time after the last one' },
  { given: '48213/7 sent {"at":-1e20,"ms":1}', why: 'a time before the first one' },
  { given: '48213/7 sent {"at":01,"ms":1}', why: 'a number that no JSON has' },
  { given: '48213/7 sent {"at":1,"ms":1}}', why: 'more behind the facts' },
  { given: '48213/7 sent {"at":1,"ms":-1}', why: 'a latency that no status takes' },
  { given: '48213/7 sent {"at":1,"ms":0.5}', why: 'a latency that is no whole number' },
  { given: '48213/7 sent {"at":1,"ms":1,"code":1e10}', why: 'a code that no status takes' },
  { given: '48213/7 failed {"at":1,"ms":1,"next":8640000000000001}', why: 'a next time after the last one' },
  { given: '48213/7 canceled {"reason":"Weather"}', why: 'an unknown reason' },
  { given: '48213/7 canceled', why: 'no reason' },
])('$given is no record: $why', ({ given }) => {
  expect(decodeOutcomeRecord(given)).toBeUndefined()
})

test('a failed record without a next time is due at once', () => {
  expect(decodeOutcomeRecord('1/2 failed {"at":5,"ms":1}')).toMatchObject({
    kind: 'failed',
    nextAttemptAt: 5,
  })
})

test('any text is read without an error, and what is read can be shown in a status', () => {
  const facts = fc.oneof(
    fc.json(),
    fc
      .record(
        { at: fc.double(), ms: fc.double(), code: fc.double(), next: fc.double() },
        { requiredKeys: [] },
      )
      .map((made) => JSON.stringify(made)),
  )
  const kind = fc.constantFrom('sent', 'failed', 'moved', 'canceled', 'claim', '')
  const line = fc.tuple(kind, facts).map(([of, text]) => `48213/7 ${of} ${text}`)
  fc.assert(
    fc.property(fc.oneof(fc.string(), line), (given) => {
      const read = decodeOutcomeRecord(given)
      if (read?.kind !== 'sent' && read?.kind !== 'failed') return
      expect(webhookDeliveryStatus.safeParse({ attempts: [read.attempt] }).success).toBe(true)
      if (read.kind === 'failed') expect(() => new Date(read.nextAttemptAt).toISOString()).not.toThrow()
    }),
    { numRuns: 2000 },
  )
})

describe('a line of shards', () => {
  const lines: [LogRecord, string][] = [
    [{ kind: 'claim', shards: [3, 17], after: 48213 }, 'claim 3,17 after 48213'],
    [{ kind: 'release', shards: [255], after: 0 }, 'release 255 after 0'],
    [{ kind: 'claim', shards: [0] }, 'claim 0'],
    [{ kind: 'claim', shards: [3], after: 48213, ends: 12 }, 'claim 3 after 48213 ends 12'],
    [{ kind: 'calm', shards: [3, 4], after: 48213 }, 'calm 3,4 after 48213'],
  ]
  test.each(lines)('%j is written as %s, and read back', (record, line) => {
    expect(encodeLogRecord(record)).toBe(line)
    expect(decodeLogRecords({ records: line })).toEqual({ records: [record], unreadable: 0 })
  })

  test.each([
    'claim',
    'claim ',
    'claim 3,',
    'claim 3 after',
    'claim 3 after x',
    'claims 3',
    'release 3 before 4',
    'release 3 after 4 ends 1',
    'calm 3 after 4 ends 1',
    'claim 3 ends',
    'claim 3 ends 1 after 4',
  ])('%s is none', (line) => {
    expect(decodeLogRecords({ records: line })).toEqual({ records: [], unreadable: 1 })
  })
})
