import { beforeEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { shardOf } from '../../ha/assignment.ts'
import { LastAttempts } from './last-attempts.ts'
import { newerAttempts } from './plan.ts'

const SUCCESS = { code: 200 }
const FAILURE = { code: 503, error: 'HTTP 503' }

let clock: FakeClock
let attempts: LastAttempts
let due: string[]

beforeEach(() => {
  clock = new FakeClock(Date.parse('2026-01-31T12:00:00.000Z'))
  attempts = new LastAttempts(clock)
  due = []
  attempts.onDue = ({ uid }) => void due.push(uid)
})

const time = () => new Date(clock.now()).toISOString()

function attempted(uid: string, result: { code?: number; error?: string } = SUCCESS, deliveryId = 'msg_1') {
  const endpoint = { namespace: 'acme', name: uid, uid }
  attempts.record(endpoint, deliveryId, { at: time(), latencyMs: 5, ...result }, result.error === undefined)
}

test('a new result is due within a second, the same result after a minute', () => {
  attempted('a')
  expect([due, attempts.of('a')]).toEqual([[], {}])
  clock.advance(1000)
  expect(due).toEqual(['a'])
  const first = '2026-01-31T12:00:00.000Z'
  expect(attempts.of('a')).toEqual({
    lastAttempt: { deliveryId: 'msg_1', at: first, latencyMs: 5, code: 200 },
    lastSuccessTime: first,
  })
  attempted('a', SUCCESS, 'msg_2')
  clock.advance(58_000)
  expect(due).toEqual(['a'])
  expect(attempts.of('a').lastAttempt?.deliveryId).toBe('msg_1')
  clock.advance(3000)
  expect(due).toEqual(['a', 'a'])
  expect(attempts.of('a').lastAttempt?.deliveryId).toBe('msg_2')
})

test('a failure after a success is due within a second, and leaves the time of the success', () => {
  attempted('a')
  clock.advance(1000)
  const success = attempts.of('a').lastSuccessTime
  attempted('a', FAILURE)
  clock.advance(1000)
  expect(due).toEqual(['a', 'a'])
  expect(attempts.of('a')).toMatchObject({ lastAttempt: FAILURE, lastSuccessTime: success })
})

test('of many endpoints five a second are due, new results first and each once', () => {
  for (let n = 0; n < 12; n += 1) attempted(`${n}`)
  clock.advance(1000)
  expect(due).toHaveLength(5)
  clock.advance(2000)
  expect([...due].sort()).toEqual(Array.from({ length: 12 }, (_, n) => `${n}`).sort())
  clock.advance(60_000)
  for (let n = 0; n < 12; n += 1) attempted(`${n}`)
  attempted('11', FAILURE)
  due = []
  clock.advance(1000)
  expect(due[0]).toBe('11')
  expect(due).toHaveLength(5)
})

test('nothing is due without attempts', () => {
  attempted('a')
  clock.advance(1000)
  due = []
  clock.advance(3_600_000)
  expect(due).toEqual([])
})

test('what is removed or forgotten is due no more', () => {
  attempted('a')
  attempted('b')
  attempts.remove('a')
  attempts.forget(shardOf('b'))
  clock.advance(1000)
  expect(due).toEqual([])
  expect([attempts.of('a'), attempts.of('b')]).toEqual([{}, {}])
})

test('a status keeps what is newer than what a new process knows', () => {
  const old = {
    lastAttempt: { deliveryId: 'msg_1', at: '2026-01-31T12:00:00.000Z', latencyMs: 1, code: 503 },
  }
  const status = {
    lastAttempt: { ...old.lastAttempt, at: '2026-01-31T13:00:00.000Z' },
    lastSuccessTime: '2026-01-31T11:00:00.000Z',
  }
  expect(newerAttempts(status, {})).toEqual(status)
  expect(newerAttempts(status, old)).toEqual(status)
  expect(newerAttempts(old, status)).toEqual(status)
  expect(newerAttempts({}, {})).toEqual({})
})
