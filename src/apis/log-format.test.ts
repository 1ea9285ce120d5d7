import { expect, test } from 'vitest'
import { readDeliverySegment } from './delivery-segment.ts'
import { LOG_FORMAT } from './log-format.ts'
import { readOutcomeSegment } from './outcome-segment.ts'

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
