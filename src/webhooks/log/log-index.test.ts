import { expect, test } from 'vitest'
import { LogSequence, type SegmentEntry, toSegmentEntry } from './segment-sweep.ts'
import type { LogSegment } from './store.ts'

function entry(version: number, bytes = 10): SegmentEntry {
  return { name: `s${version}`, version, bytes, createdAt: 0, organization: 'acme' }
}

function versions(sequence: LogSequence<SegmentEntry>): number[] {
  return sequence.values().map(({ version }) => version)
}

test('segments are in the order of their versions, each once, however they came', () => {
  const sequence = new LogSequence<SegmentEntry>()
  for (const version of [5, 9, 2, 9, 7, 2]) sequence.add(entry(version))
  sequence.merge([8, 1, 9, 5, 8].map((version) => entry(version)))
  expect(versions(sequence)).toEqual([1, 2, 5, 7, 8, 9])
  expect([sequence.size, sequence.bytes, sequence.oldest()?.version]).toEqual([6, 60, 1])
})

test('what is removed no longer counts, also when it is removed twice or comes again in a list', () => {
  const sequence = new LogSequence<SegmentEntry>()
  const first = entry(1)
  sequence.add(first)
  sequence.add(entry(2))
  sequence.remove(first)
  sequence.remove(first)
  expect([sequence.size, sequence.bytes, sequence.oldest()?.version]).toEqual([1, 10, 2])
  expect(versions(sequence)).toEqual([2])
  sequence.add(entry(1))
  expect(versions(sequence)).toEqual([1, 2])
})

function delivery(index: number, eventIndex: number, namespace: string) {
  const event = {
    id: `${eventIndex}`.padStart(26, '0'),
    namespace,
    type: 'test.event',
    bodyBytes: 9,
    receivers: 1,
  }
  return { index, eventIndex, event, endpoint: { name: 'billing', uid: 'uid' } }
}

function segment(deliveries: LogSegment['deliveries']): LogSegment {
  const bodies = deliveries.map(() => '"payload"')
  const times = { writtenAt: 1, createdAt: 2 }
  return {
    name: 'segment',
    version: 7,
    ...times,
    deliveries,
    bodies,
    unreadable: 0,
    bytes: 1000,
  }
}

test.each([
  { given: ['acme', 'acme'], want: 'acme' },
  { given: ['acme', 'other'], want: '' },
  { given: [], want: '' },
])('a segment with events of $given counts for "$want"', ({ given, want }) => {
  const deliveries = given.map((namespace, index) => delivery(index, index, namespace))
  expect(toSegmentEntry(segment(deliveries))).toMatchObject({
    name: 'segment',
    version: 7,
    createdAt: 2,
    organization: want,
  })
})

test('a segment of events that nobody gets is of their organization, and holds more than keys', () => {
  const { index: _, endpoint: __, ...undelivered } = delivery(0, 0, 'acme')
  const empty = { ...segment([]), keys: { newestAt: 1 } }
  const entry = toSegmentEntry({ ...empty, undelivered: [undelivered] })
  expect(entry).toMatchObject({ organization: 'acme', keysOnly: false })
  expect(toSegmentEntry(empty)).toMatchObject({ organization: '', keysOnly: true })
})
