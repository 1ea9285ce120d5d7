import { expect, it } from 'vitest'
import { COORDINATOR_TIMES, MemoryRecords } from '../../test/support/coordinator-bed.ts'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { ApiError } from '../kube/client.ts'
import { SelfLease } from './own-lease.ts'
import { type ReplicaRecord, type StoredRecord, UNKNOWN_SESSION } from './replica-leases.ts'

const WAIT_MS = COORDINATOR_TIMES.leaseMs + COORDINATOR_TIMES.drainMs

function recordOf(session = 's1', view: string[] = ['a']): ReplicaRecord {
  return { name: 'a', session, view, draining: [], leaseMs: COORDINATOR_TIMES.leaseMs }
}

function bed(isNameOwn = true) {
  const clock = new FakeClock()
  const records = new MemoryRecords()
  const own = new SelfLease({
    name: 'a',
    session: 's1',
    isNameExclusive: isNameOwn,
    times: COORDINATOR_TIMES,
    records,
    clock,
  })
  const learn = async () => own.observe(await records.list(), clock.monotonic())
  return { clock, records, own, learn }
}

it('is in doubt until it was looked up, and after each write whose answer is not known', async () => {
  const { records, own, learn } = bed()
  expect(own.isInDoubt).toBe(true)
  expect(await learn()).toBe('ours')
  expect([own.isInDoubt, own.published]).toEqual([false, undefined])
  await own.write(recordOf())
  expect([own.isInDoubt, own.published]).toEqual([false, recordOf()])
  records.failing.set('write', new ApiError('Unavailable', 'no answer'))
  await expect(own.write(recordOf('s1', ['a', 'b']))).rejects.toThrow()
  expect(own.isInDoubt).toBe(true)
})

it('what is published is what is stored, whether or not the answer to its write came', async () => {
  const { records, own, learn } = bed()
  await learn()
  await own.write(recordOf())
  const stored = recordOf('s1', ['a', 'b'])
  records.put(stored)
  await expect(own.write(recordOf('s1', []))).rejects.toMatchObject({ kind: 'Conflict' })
  expect(await learn()).toBe('ours')
  expect(own.published).toMatchObject(stored)
  await own.write(recordOf('s1', []))
  expect(records.byName.get('a')).toMatchObject({ view: [] })
})

it('one that somebody has removed is not published, and made anew', async () => {
  const { records, own, learn } = bed()
  await learn()
  await own.write(recordOf())
  records.byName.clear()
  await expect(own.write(recordOf())).rejects.toThrow()
  expect(await learn()).toBe('ours')
  expect(own.published).toBeUndefined()
  await own.write(recordOf())
  expect(records.byName.get('a')).toMatchObject({ session: 's1' })
})

it('what the one before has left under a name of its own is not what this one has published, and is written over', async () => {
  const { records, own, learn } = bed()
  records.put(recordOf('s0'))
  expect(await learn()).toBe('ours')
  expect(own.published).toBeUndefined()
  await own.write(recordOf())
  expect(records.byName.get('a')).toMatchObject({ session: 's1' })
})

it('another session there replaces one who has written, also if only the list has told that it has', async () => {
  const { records, learn } = bed()
  records.put(recordOf('s1'))
  expect(await learn()).toBe('ours')
  records.put(recordOf('s2'))
  expect(await learn()).toBe('replaced')
})

it('what somebody has spoilt is its own where it has written, and anybody’s where it has not', async () => {
  const writer = bed(false)
  await writer.learn()
  await writer.own.write(recordOf())
  writer.records.put(recordOf(UNKNOWN_SESSION))
  expect(await writer.learn()).toBe('ours')
  const newcomer = bed(false)
  newcomer.records.put(recordOf(UNKNOWN_SESSION))
  expect(await newcomer.learn()).toBe('taken')
})

it('a name that another one has is taken for its lease and for what it had under way, to the millisecond', async () => {
  const { clock, records, own, learn } = bed(false)
  records.put(recordOf('s0'))
  expect(await learn()).toBe('taken')
  clock.advance(WAIT_MS - 1)
  expect(await learn()).toBe('taken')
  expect(own.isInDoubt).toBe(true)
  clock.advance(1)
  expect(await learn()).toBe('ours')
  expect(own.isInDoubt).toBe(false)
})

it('each renewal of the other one begins the wait anew', async () => {
  const { clock, records, learn } = bed(false)
  records.put(recordOf('s0'))
  await learn()
  clock.advance(WAIT_MS - 1)
  records.put(recordOf('s0'))
  expect(await learn()).toBe('taken')
  clock.advance(WAIT_MS - 1)
  expect(await learn()).toBe('taken')
  clock.advance(1)
  expect(await learn()).toBe('ours')
})

it('one who has claimed nothing is not waited for', async () => {
  const { records, learn } = bed(false)
  const idle: StoredRecord = { ...recordOf('s0', []), version: '1' }
  records.put(idle)
  expect(await learn()).toBe('ours')
})
