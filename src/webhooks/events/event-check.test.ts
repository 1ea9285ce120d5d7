import { expect, test } from 'vitest'
import { refuseEvent } from './plan.ts'

const KNOWN = { name: 'environment.started', known: true }
const LIMIT = 256 * 1024

test.each([
  { given: KNOWN, data: '{}', why: 'a known type' },
  {
    given: { name: 'webhooks.moved', known: true },
    data: '{}',
    why: 'a type that only begins like the reserved ones',
  },
  { given: KNOWN, data: `"${'x'.repeat(LIMIT - 2)}"`, why: 'exactly 256 KiB' },
  { given: KNOWN, data: 'null', why: 'null' },
])('an event of $why may be published', ({ given, data }) => {
  expect(refuseEvent(given, { dataText: data }, 0)).toBeUndefined()
})

test.each([
  {
    given: { name: 'webhook.ping', known: true },
    data: '{}',
    want: {
      reason: 'Reserved',
      part: 'type',
      message: 'the prefix "webhook." is reserved for events that Davit publishes',
    },
  },
  {
    given: { name: 'webhook.invented', known: false },
    data: '{}',
    want: {
      reason: 'Reserved',
      part: 'type',
      message: 'the prefix "webhook." is reserved for events that Davit publishes',
    },
  },
  {
    given: { name: 'environment.paused', known: false },
    data: '{}',
    want: {
      reason: 'UnknownType',
      part: 'type',
      message: expect.stringContaining('EventType environment.paused does not exist'),
    },
  },
  {
    given: KNOWN,
    data: `"${'x'.repeat(LIMIT - 1)}"`,
    want: {
      reason: 'TooLarge',
      part: 'data',
      message: expect.stringContaining('at most 262144 bytes of JSON, but is 262145'),
    },
  },
  {
    given: KNOWN,
    data: `"${'é'.repeat(LIMIT / 2)}"`,
    want: { reason: 'TooLarge', part: 'data', message: expect.stringContaining('262146 bytes') },
  },
])('an event of type $given.name is refused: $want.reason', ({ given, data, want }) => {
  expect(refuseEvent(given, { dataText: data }, 0)).toEqual(want)
})

test.each([
  { ahead: 300_000, want: undefined },
  {
    ahead: 300_001,
    want: { reason: 'InTheFuture', part: 'timestamp', message: 'must be at most five minutes in the future' },
  },
  { ahead: -1e12, want: undefined },
])('an event that happens $ahead ms ahead of the clock: $want.reason', ({ ahead, want }) => {
  const now = 2e12
  expect(refuseEvent(KNOWN, { dataText: '{}', happenedAt: now + ahead }, now)).toEqual(want)
})
