import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { readLoggedOutcomes } from '../webhooks/log/reader.ts'
import { newDeliverySegment, readDeliverySegment } from './delivery-segment.ts'
import { LOG_FORMAT, storedBytes } from './log-format.ts'
import { newOutcomeSegment, readOutcomeSegment } from './outcome-segment.ts'

const metadata = { name: 's', resourceVersion: '7', creationTimestamp: '2026-01-31T12:00:00Z' }
const events = [`${'0'.repeat(26)} acme test.happened - - {}`]

const READERS = [
  { kind: 'DeliverySegment', read: readDeliverySegment, spec: { events, deliveries: '' } },
  { kind: 'OutcomeSegment', read: readOutcomeSegment, spec: { lowWater: '0', records: '1/0 ended' } },
]

test.each(READERS)('a $kind of a newer format is not read, however it is written', ({ read, spec }) => {
  const common = { writtenAt: 1, writer: 'w', ...spec }
  for (const writer of ['usual', 'w'])
    expect(() => read({ metadata, spec: { ...common, writer, format: LOG_FORMAT + 1 } })).toThrow(
      `segment s of the delivery log has format ${LOG_FORMAT + 1}`,
    )
})

test.each(READERS)('a $kind of this format, or of none, is read', ({ read, spec }) => {
  const common = { writtenAt: 1, writer: 'writer', ...spec }
  for (const format of [{}, { format: LOG_FORMAT }])
    expect(read({ metadata, spec: { ...common, ...format } }).spec.writer).toBe('writer')
})

const head = { writtenAt: 1, writer: 'w' }
const line = (data: string) => `${'0'.repeat(26)} acme test.happened - - ${JSON.stringify({ data })}`

describe('the text of a segment', () => {
  test('is read as it was written, packed or not', () => {
    const text = fc.string({ maxLength: 3000, unit: 'binary' }).map((data) => data.toWellFormed())
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 9 }), (bodies) => {
        const lines = { events: bodies.map(line), deliveries: `0 billing ${'u'.repeat(36)}` }
        const stored = JSON.parse(JSON.stringify(newDeliverySegment(head, lines)))
        expect(readDeliverySegment({ metadata, spec: stored }).spec).toMatchObject({ ...head, ...lines })
      }),
    )
  })

  test('is packed from 4 KB on, and takes a fraction of that', () => {
    const records = Array.from({ length: 500 }, (_, n) => `${n}/0 ended`).join('\n')
    const spec = newOutcomeSegment({ ...head, lowWater: '0' }, records)
    expect(spec).toMatchObject({ format: 2, packed: expect.any(String) })
    expect(spec).not.toHaveProperty('records')
    expect(storedBytes(spec)).toBeLessThan(records.length / 2)
    expect(readOutcomeSegment({ metadata, spec })).toMatchObject({ spec: { records } })
    const nothing = () => undefined
    const log = { info: nothing, warn: nothing, error: nothing }
    expect(readLoggedOutcomes({ metadata, spec }, log)).toMatchObject({ size: storedBytes(spec) })
    expect(newOutcomeSegment({ ...head, lowWater: '0' }, '1/0 ended')).toMatchObject({ format: 1 })
  })

  test('is left to the API server to reject where no reader would accept it', () => {
    const events = [line('x')]
    expect(newDeliverySegment(head, { events, deliveries: 'x'.repeat(700_001) })).toHaveProperty('events')
    expect(newDeliverySegment(head, { events: [line('x'.repeat(301_000))], deliveries: '' })).toHaveProperty(
      'events',
    )
    expect(newDeliverySegment(head, { events, deliveries: 'x'.repeat(700_000) })).toHaveProperty('packed')
  })

  test('takes as many bytes as it has, whatever its characters', () => {
    const spec = newDeliverySegment(head, { events: [line('\u6587'.repeat(500))], deliveries: '' })
    expect(storedBytes(spec)).toBeGreaterThan(1500)
  })

  test.each([
    { what: 'is no base64', packed: '?'.repeat(40) },
    { what: 'is no gzip', packed: Buffer.from('a'.repeat(40)).toString('base64') },
    { what: 'is no JSON', packed: gzipSync('{'.repeat(40)).toString('base64') },
    { what: 'is not about events', packed: gzipSync('{"records":"1/0 ended"}').toString('base64') },
    {
      what: 'unpacks to more than it may',
      packed: gzipSync(`"${'x'.repeat(9 * 2 ** 20)}"`).toString('base64'),
    },
  ])('that $what is unreadable', ({ packed }) => {
    expect(() => readDeliverySegment({ metadata, spec: { ...head, format: 2, packed } })).toThrow('events')
  })
})
