import { afterEach, expect, it } from 'vitest'
import { BED_SHARDS, COORDINATOR_TIMES, CoordinatorBed } from '../../test/support/coordinator-bed.ts'
import { logMembership } from './peer-liveness.ts'

const { renewEveryMs, leaseMs, drainMs } = COORDINATOR_TIMES

let bed: CoordinatorBed

afterEach(() => {
  bed?.end()
})

const linesOf = (lines: readonly string[]) => lines.filter((line) => line.startsWith('another replica'))

async function two() {
  bed = new CoordinatorBed()
  const one = bed.join('a')
  await bed.clock.elapse(1000)
  const other = bed.join('b')
  await bed.clock.elapse(3 * renewEveryMs)
  return { one, other }
}

it('one that dies is said to be silent when its Lease has ended, and not again when its shards are taken', async () => {
  const { one, other } = await two()
  expect(linesOf(one.lines)).toEqual(['another replica joined'])
  other.end()
  await bed.clock.elapse(leaseMs + 2 * renewEveryMs)
  const silent =
    'another replica stopped renewing its Lease; its ordered endpoints pause until its work has certainly ended'
  expect(linesOf(one.lines)).toEqual(['another replica joined', silent])
  await bed.clock.elapse(drainMs + 2 * renewEveryMs)
  expect(one.coordinator.owned).toBe(BED_SHARDS)
  expect(linesOf(one.lines)).toHaveLength(2)
})

it('one that is told to end is said to leave', async () => {
  const { one, other } = await two()
  other.coordinator.leave()
  await bed.clock.elapse(3 * renewEveryMs)
  expect(linesOf(one.lines)).toEqual(['another replica joined', 'another replica left'])
})

it('tells how many shards are of another one, for how long they stand still, and how many are left', () => {
  const told: unknown[] = []
  const tell = (level: string) => (event: string, _message: string, facts?: object) =>
    void told.push([level, event, facts])
  const log = { info: tell('info'), warn: tell('warn'), error: tell('error') }
  logMembership(
    { name: 'a', times: COORDINATOR_TIMES, log },
    {
      before: ['a', 'b', 'c'],
      after: ['a', 'd'],
      ownersBefore: ['a', 'b', 'b', 'c'],
      owners: ['a', 'a', 'a', 'd'],
      isSilent: (name) => name === 'b',
    },
  )
  expect(told).toEqual([
    ['warn', 'replica_silent', { replica: 'b', shards: 2, live: 2, seconds: 21 }],
    ['info', 'replica_left', { replica: 'c', shards: 1, live: 2 }],
    ['info', 'replica_joined', { replica: 'd', shards: 1, live: 2 }],
  ])
})

it('says nothing of those that are there when it comes itself, or ends', () => {
  const told: unknown[] = []
  const tell = (message: string) => void told.push(message)
  const log = { info: tell, warn: tell, error: tell }
  const teller = { name: 'a', times: COORDINATOR_TIMES, log }
  const change = { ownersBefore: [], owners: [], isSilent: () => false }
  logMembership(teller, { ...change, before: [], after: ['a', 'b'] })
  logMembership(teller, { ...change, before: ['a', 'b'], after: [] })
  expect(told).toEqual([])
})
