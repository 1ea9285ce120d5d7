import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { decodeEventLine, encodeEventLine, type SegmentEvent } from './delivery-segment.ts'

const word = fc.stringMatching(/^[a-z0-9_.-]{2,20}$/)
const events: fc.Arbitrary<SegmentEvent> = fc
  .record(
    {
      id: word,
      namespace: word,
      type: word,
      payload: fc.string(),
      key: word,
      fingerprint: word,
      redeliveryOf: word,
    },
    { requiredKeys: ['id', 'namespace', 'type', 'payload'] },
  )
  .filter(({ key, fingerprint }) => key !== undefined || fingerprint === undefined)

test('an event comes back from its line as it was, spaces and line breaks of the body included', () => {
  fc.assert(
    fc.property(events, (event) => {
      expect(decodeEventLine(encodeEventLine(event))).toEqual({ ...event })
    }),
  )
})

test.each([
  { given: '', why: 'an empty line' },
  { given: 'id acme type -', why: 'too few words' },
  { given: 'id  type - - {}', why: 'an empty word' },
])('$why is no event', ({ given }) => {
  expect(decodeEventLine(given)).toBeUndefined()
})

test('the key of a request is told apart from what it asked for, so that one key is one key whatever comes with it', () => {
  const event = { id: 'id', namespace: 'acme', type: 'a.b', payload: '{}', key: 'key' }
  const lines = ['one', 'two'].map((fingerprint) =>
    decodeEventLine(encodeEventLine({ ...event, fingerprint })),
  )
  expect(lines.map((line) => [line?.key, line?.fingerprint])).toEqual([
    ['key', 'one'],
    ['key', 'two'],
  ])
})
