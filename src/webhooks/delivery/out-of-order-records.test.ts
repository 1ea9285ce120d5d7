import { expect, it } from 'vitest'
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import { OutOfOrderRecords, type SequencedRecord } from './remote-deliveries.ts'

function said(record: OutcomeRecord): SequencedRecord {
  return { record, version: 9000, writer: 'another' }
}
function moved(version: number, index: number) {
  return said({ kind: 'moved', position: { version, index } })
}
function canceled(version: number, index: number) {
  return said({ kind: 'canceled', position: { version, index }, reason: 'Duplicate' })
}

it('gives the records of a segment by index, in order, and once', () => {
  const early = new OutOfOrderRecords()
  early.add(canceled(7, 1))
  early.add(moved(7, 0))
  early.add(moved(7, 1))
  early.add(moved(8, 0))
  expect([...early.take(7)]).toEqual([
    [1, [canceled(7, 1), moved(7, 1)]],
    [0, [moved(7, 0)]],
  ])
  expect(early.take(7).size).toBe(0)
  expect(early.take(8).size).toBe(1)
})

it('forgets what is behind the mark, once there is much of it', () => {
  const early = new OutOfOrderRecords()
  for (let version = 1; version <= 1000; version += 1) early.add(moved(version, 0))
  early.forget(999)
  expect(early.take(999).size).toBe(0)
  expect(early.take(1000).size).toBe(1)
})

it('is full when it holds more than two hundred thousand, and not when those were taken or forgotten', () => {
  const early = new OutOfOrderRecords()
  for (let n = 0; n < 200_000; n += 1) early.add(moved(1 + (n % 2000), n))
  expect(early.isFull).toBe(false)
  early.add(moved(1, 0))
  expect(early.isFull).toBe(true)
  early.take(1)
  expect(early.isFull).toBe(false)
  early.add(moved(3000, 0))
  early.forget(2999)
  for (let n = 0; n < 199_999; n += 1) early.add(moved(3000, n))
  expect(early.isFull).toBe(false)
})
