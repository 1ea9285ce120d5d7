import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { shardOf } from '../../ha/assignment.ts'
import type { EndpointIdentity } from '../endpoints/directory.ts'
import { FinishedIndex, type NewFinishedDelivery } from './retention-index.ts'
import type { RetentionLimits } from './retention-plan.ts'

const DAY = 24 * 60 * 60_000
const NOW = 30 * DAY
const LOW_WATER = 1000
const BYTES = 1000

const limits: RetentionLimits = {
  succeededMs: DAY,
  failedMs: 7 * DAY,
  maxFinishedPerEndpoint: 3,
  maxFinishedBytes: 5 * BYTES,
  maxLogBytes: 0,
}

function endpoint(name: string): EndpointIdentity {
  return { namespace: 'acme', name, uid: `uid-${name}` }
}

function finished(name: string, over: Partial<NewFinishedDelivery> = {}): NewFinishedDelivery {
  return {
    endpoint: endpoint('billing'),
    name,
    succeeded: true,
    completedAt: NOW,
    bytes: BYTES,
    version: 1,
    index: 0,
    objectVersion: 1,
    ...over,
  }
}

function behind(lowWater: number) {
  return ({ version }: { version: number }) => version <= lowWater
}

const isClosed = behind(LOW_WATER)

function takeAll(index: FinishedIndex, lowWater = LOW_WATER, now = NOW): string[] {
  const names: string[] = []
  const take = () => index.take(behind(lowWater), now)
  for (let found = take(); found; found = take()) names.push(found.name)
  return names
}

test('what is too old goes, the oldest first', () => {
  const index = new FinishedIndex(limits)
  index.add(finished('young', { completedAt: NOW - DAY }))
  index.add(finished('old', { completedAt: NOW - DAY - 1 }))
  index.add(finished('older', { completedAt: NOW - DAY - 2 }))
  expect(takeAll(index)).toEqual(['older', 'old'])
  expect(index.size).toBe(1)
})

test('an endpoint over its bound gives its oldest successes, then its oldest failures', () => {
  const index = new FinishedIndex(limits)
  index.add(finished('failed first', { succeeded: false, completedAt: NOW - 9 }))
  index.add(finished('failed later', { succeeded: false, completedAt: NOW - 8 }))
  for (const age of [7, 6]) index.add(finished(`${age}`, { completedAt: NOW - age }))
  expect(takeAll(index)).toEqual(['7'])
  for (const age of [5, 4]) index.add(finished(`failed ${age}`, { succeeded: false, completedAt: NOW - age }))
  expect(takeAll(index)).toEqual(['6', 'failed first'])
})

test('over the bound for all, the oldest success of any endpoint goes', () => {
  const index = new FinishedIndex(limits)
  for (const [at, name] of ['a', 'b', 'c'].entries()) {
    for (const n of [1, 2]) {
      index.add(finished(`${name}${n}`, { endpoint: endpoint(name), completedAt: NOW - 10 * n + at }))
    }
  }
  expect(takeAll(index)).toEqual(['a2'])
})

test('over the bound for all, the organization with the most gives way, whatever is older elsewhere', () => {
  const index = new FinishedIndex(limits)
  const of = (namespace: string, name: string) => ({ namespace, name, uid: `uid-${namespace}-${name}` })
  index.add(finished('quiet', { endpoint: of('quiet', 'a'), completedAt: NOW - DAY / 2 }))
  for (const n of [1, 2, 3, 4, 5, 6])
    index.add(finished(`loud${n}`, { endpoint: of('loud', `${n}`), completedAt: NOW - 10 + n }))
  expect(takeAll(index)).toEqual(['loud1', 'loud2'])
})

test('a delivery whose entry is open hides no other one', () => {
  const index = new FinishedIndex(limits)
  const of = (namespace: string) => ({ namespace, name: 'a', uid: `uid-${namespace}` })
  index.add(finished('open', { completedAt: NOW - 3 * DAY, version: LOW_WATER + 1 }))
  index.add(finished('closed', { completedAt: NOW - 2 * DAY }))
  index.add(finished('elsewhere', { endpoint: of('globex'), completedAt: NOW - 2 * DAY }))
  expect(takeAll(index).sort()).toEqual(['closed', 'elsewhere'])
})

test('a delivery whose entry in the log is open stays until it is closed', () => {
  const index = new FinishedIndex(limits)
  index.add(finished('old', { completedAt: NOW - 2 * DAY, version: 7 }))
  expect(takeAll(index, 6)).toEqual([])
  expect(takeAll(index, 7)).toEqual(['old'])
})

test('all deliveries of an endpoint that is gone go, and those that come after', () => {
  const index = new FinishedIndex(limits)
  index.add(finished('young'))
  index.add(finished('failed', { succeeded: false }))
  index.add(finished("another endpoint's", { endpoint: endpoint('audit') }))
  index.markEndpointDeleted('uid-billing')
  index.markEndpointDeleted('uid-unknown')
  index.add(finished('late'))
  expect(takeAll(index).sort()).toEqual(['failed', 'late', 'young'])
  expect([index.size, index.has('uid-billing'), index.has('uid-audit')]).toEqual([1, false, true])
})

test('what is evicted goes once, whatever its age', () => {
  const index = new FinishedIndex(limits)
  const kept = index.add(finished('large'))
  index.add(finished('small'))
  index.evict(kept)
  index.evict(kept)
  expect(takeAll(index)).toEqual(['large'])
  index.evict(kept)
  expect(takeAll(index)).toEqual([])
})

const anyFinished = fc.record({
  endpoint: fc.constantFrom('a', 'b', 'c', 'd').map(endpoint),
  succeeded: fc.boolean(),
  completedAt: fc.integer({ min: NOW - 9 * DAY, max: NOW }),
  bytes: fc.constant(BYTES),
  version: fc.integer({ min: LOW_WATER - 20, max: LOW_WATER }),
  index: fc.constant(0),
  objectVersion: fc.nat(),
})

type Given = NewFinishedDelivery & { name: string }

/** Why it may go, if it may, when `left` is what is left without it. */
function reasonFor(taken: Given, left: readonly Given[]): 'age' | readonly Given[] | undefined {
  const mates = left.filter((one) => one.endpoint.uid === taken.endpoint.uid)
  if (NOW - taken.completedAt > (taken.succeeded ? DAY : 7 * DAY)) return 'age'
  if ((left.length + 1) * BYTES > limits.maxFinishedBytes) return left
  return mates.length + 1 > limits.maxFinishedPerEndpoint ? mates : undefined
}

test('whatever was added, what goes is too old, or the oldest success, or the oldest of nothing but failures', () => {
  fc.assert(
    fc.property(fc.array(anyFinished, { maxLength: 40 }), (given) => {
      const index = new FinishedIndex(limits)
      const left = new Map(given.map((one, at) => [`${at}`, { ...one, name: `${at}` }]))
      for (const one of left.values()) index.add(one)
      for (let taken = index.take(isClosed, NOW); taken; taken = index.take(isClosed, NOW)) {
        const { name, succeeded, completedAt } = taken
        expect(left.delete(name)).toBe(true)
        const reason = reasonFor(taken, [...left.values()])
        expect(reason).toBeDefined()
        const others = Array.isArray(reason) ? reason : []
        const older = others.filter((one) => one.succeeded === succeeded && one.completedAt < completedAt)
        expect(older).toEqual([])
        expect(others.some((one) => one.succeeded && !succeeded)).toBe(false)
      }
      expect(index.size).toBe(left.size)
    }),
  )
})

test('whatever was added, the bounds hold in the end', () => {
  fc.assert(
    fc.property(fc.array(anyFinished, { maxLength: 40 }), (given) => {
      const index = new FinishedIndex(limits)
      const left = new Map(given.map((one, at) => [`${at}`, { ...one, name: `${at}` }]))
      for (const one of left.values()) index.add(one)
      for (const name of takeAll(index)) left.delete(name)
      expect(left.size * BYTES).toBeLessThanOrEqual(limits.maxFinishedBytes)
      const counts = Object.values(Object.groupBy(left.values(), (one) => one.endpoint.name))
      for (const mates of counts) expect(mates?.length).toBeLessThanOrEqual(limits.maxFinishedPerEndpoint)
      for (const one of left.values()) expect(NOW - one.completedAt).toBeLessThanOrEqual(7 * DAY)
    }),
  )
})

test('forgets what is of endpoints that another index has from then on, and nothing else', () => {
  const index = new FinishedIndex(limits)
  const old = { completedAt: NOW - 2 * DAY }
  const evicted = index.add(finished('a', old))
  index.add(finished('b', { ...old, endpoint: endpoint('crm') }))
  index.evict(evicted)
  index.markEndpointDeleted(endpoint('billing').uid)
  index.forget(new Set([shardOf(endpoint('billing').uid)]))
  expect(index.size).toBe(1)
  expect(index.has(endpoint('billing').uid)).toBe(false)
  expect(evicted.isRemoved).toBe(true)
  expect(index.take(isClosed, NOW)?.name).toBe('b')
  expect(index.take(isClosed, NOW)).toBeUndefined()
})

test('takes up what it forgot when that is told again', () => {
  const index = new FinishedIndex(limits)
  index.add(finished('a', { completedAt: NOW - 2 * DAY }))
  index.forget(new Set([shardOf(endpoint('billing').uid)]))
  index.add(finished('a', { completedAt: NOW - 2 * DAY }))
  expect(index.size).toBe(1)
  expect(index.take(isClosed, NOW)?.name).toBe('a')
})

test('keeps its share of what all may have, as that changes', () => {
  let share = 1
  const index = new FinishedIndex(
    { ...limits, maxFinishedBytes: 4 * BYTES, maxFinishedPerEndpoint: 100 },
    () => share,
  )
  for (let n = 0; n < 4; n += 1) index.add(finished(`d${n}`, { completedAt: NOW - 10 + n }))
  expect(index.take(isClosed, NOW)).toBeUndefined()
  share = 0.75
  expect(index.take(isClosed, NOW)?.name).toBe('d0')
  expect(index.take(isClosed, NOW)).toBeUndefined()
  share = 0.5
  expect(index.take(isClosed, NOW)?.name).toBe('d1')
})

test('over the limit the organization gives way whose objects are the largest together, and no smaller one', () => {
  const index = new FinishedIndex({ ...limits, maxFinishedPerEndpoint: 100 })
  const small = { endpoint: { namespace: 'small', name: 'billing', uid: 'uid-small' }, bytes: BYTES / 10 }
  for (let n = 0; n < 20; n += 1) index.add(finished(`small ${n}`, { ...small, completedAt: NOW - 1000 + n }))
  for (let n = 0; n < 4; n += 1) index.add(finished(`large ${n}`, { completedAt: NOW - 10 + n }))
  expect(index.bytes).toBe(6 * BYTES)
  expect(takeAll(index)).toEqual(['large 0'])
  expect(index.bytes).toBe(5 * BYTES)
})
