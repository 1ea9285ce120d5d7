import { afterEach, describe, expect, it } from 'vitest'
import { BED_SHARDS, COORDINATOR_TIMES, CoordinatorBed } from '../../test/support/coordinator-bed.ts'
import { ApiError } from '../kube/client.ts'
import { sleep } from '../lib/time.ts'

const beds: CoordinatorBed[] = []
afterEach(() => {
  for (const bed of beds.splice(0)) bed.end()
})

function coordinatorBed(): CoordinatorBed {
  const bed = new CoordinatorBed()
  beds.push(bed)
  return bed
}

const GONE_MS = COORDINATOR_TIMES.leaseMs + COORDINATOR_TIMES.drainMs

describe('what fails and goes on failing', () => {
  it('a shard whose end fails once is handed over all the same', async () => {
    const bed = coordinatorBed()
    let failures = 1
    const stop = async () => {
      failures -= 1
      if (failures >= 0) throw new Error('it could not be ended')
    }
    const first = bed.join('a', { work: { stop } })
    await bed.clock.elapse(1000)
    const second = bed.join('b')
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs * 5)
    expect(first.coordinator.owned).toBeGreaterThan(0)
    expect(second.coordinator.owned).toBeGreaterThan(0)
    expect(first.coordinator.owned + second.coordinator.owned).toBe(BED_SHARDS)
    expect(failures).toBeLessThan(0)
  })

  it('a start that failed is ended before it is begun again', async () => {
    const bed = coordinatorBed()
    const calls: string[] = []
    const start = async () => {
      calls.push('start')
      if (calls.length === 1) throw new Error('it could not be begun')
    }
    const stop = async (shard: number) => void calls.push(`stop ${shard}`)
    const one = bed.join('a', { work: { start, stop } })
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs)
    const stops = Array.from({ length: BED_SHARDS }, (_, shard) => `stop ${shard}`)
    expect(calls).toEqual(['start', ...stops, 'start'])
    expect(one.coordinator.owned).toBe(BED_SHARDS)
  })

  it('a start that is given up for some of its shards is ended for all of them', async () => {
    const bed = coordinatorBed()
    const calls: string[] = []
    let starts = 0
    const start = async (_: readonly number[], signal: AbortSignal) => {
      starts += 1
      if (starts > 1) return
      await new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    }
    const stop = async (shard: number) => void calls.push(`stop ${shard}`)
    const one = bed.join('a', { work: { start, stop } })
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs)
    expect(starts).toBe(1)
    const other = bed.join('b')
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs * 5)
    expect(calls.toSorted()).toEqual(Array.from({ length: BED_SHARDS }, (_, shard) => `stop ${shard}`))
    expect(one.coordinator.owned + other.coordinator.owned).toBe(BED_SHARDS)
    expect(one.coordinator.owned).toBeGreaterThan(0)
  })

  it('a record that may not be removed keeps nobody from joining, and is not tried all the time', async () => {
    const bed = coordinatorBed()
    bed.records.put({ name: 'gone', session: 'x', view: ['gone'], draining: [], leaseMs: 9000 })
    bed.records.failing.set('remove', new ApiError('Forbidden', 'no right to delete'))
    const one = bed.join('a')
    let isSettled = false
    void one.coordinator.settled.then(() => {
      isSettled = true
    })
    await bed.clock.elapse(GONE_MS + 3 * COORDINATOR_TIMES.leaseMs)
    expect(isSettled).toBe(true)
    expect(one.coordinator.owned).toBe(BED_SHARDS)
    expect(bed.records.calls.filter((call) => call === 'remove gone').length).toBeLessThanOrEqual(3)
    expect(one.lines).toContain('failed to remove the Lease of a stopped replica; retrying')
  })

  it('a list that fails costs nobody the lease: renewals go on', async () => {
    const bed = coordinatorBed()
    const one = bed.join('a')
    await bed.clock.elapse(1000)
    bed.records.failing.set('list', new ApiError('BadRequest', 'too many'))
    for (let waited = 0; waited < 3 * GONE_MS; waited += 1000) {
      await bed.clock.elapse(1000)
      expect(one.coordinator.owned).toBe(BED_SHARDS)
    }
  })

  it('a write that fails ends what it may do in time, and goes on when it is taken again', async () => {
    const bed = coordinatorBed()
    const one = bed.join('a')
    await bed.clock.elapse(1000)
    bed.records.failing.set('write', new ApiError('Unavailable', 'no answer'))
    await bed.clock.elapse(COORDINATOR_TIMES.holdsMs)
    expect(one.coordinator.mayAct).toBe(false)
    expect(one.coordinator.owned).toBe(0)
    bed.records.failing.clear()
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs)
    expect(one.coordinator.owned).toBe(BED_SHARDS)
  })
})

it('an answer that comes late says that it was renewed when it was asked for, not when it was answered', async () => {
  const bed = coordinatorBed()
  const one = bed.join('a')
  await bed.clock.elapse(1000)
  const write = bed.records.write.bind(bed.records)
  const answerMs = COORDINATOR_TIMES.holdsMs - 1000
  bed.records.write = async (record, over) => {
    const version = await write(record, over)
    await sleep(bed.clock, answerMs)
    return version
  }
  const writes = () => bed.records.calls.filter((call) => call === 'write a').length
  const before = writes()
  while (writes() === before) await bed.clock.elapse(10)
  await bed.clock.elapse(answerMs)
  expect(one.coordinator.mayAct).toBe(true)
  await bed.clock.elapse(1000)
  expect(one.coordinator.mayAct).toBe(false)
})

describe('more replicas than shards are given to', () => {
  it('stand by, ready and without a part, until one goes', async () => {
    const bed = coordinatorBed()
    const members = ['a', 'b'].map((name) => bed.join(name, { maxMembers: 2 }))
    await bed.clock.elapse(5000)
    const third = bed.join('0', { maxMembers: 2 })
    let isSettled = false
    void third.coordinator.settled.then(() => {
      isSettled = true
    })
    await bed.clock.elapse(5000)
    expect(isSettled).toBe(true)
    expect(third.coordinator.owned).toBe(0)
    expect(members.reduce((sum, { coordinator }) => sum + coordinator.owned, 0)).toBe(BED_SHARDS)
    members[0]?.coordinator.leave()
    await bed.clock.elapse(5000)
    expect(third.coordinator.owned).toBeGreaterThan(0)
    expect(third.coordinator.owned + (members[1]?.coordinator.owned ?? 0)).toBe(BED_SHARDS)
  })

  it('that come at one time agree on who stands by', async () => {
    const bed = coordinatorBed()
    const all = ['d', 'c', 'b', 'a'].map((name) => bed.join(name, { maxMembers: 2 }))
    await bed.clock.elapse(20_000)
    const owned = all.map(({ coordinator }) => coordinator.owned)
    expect(owned.filter((count) => count > 0)).toHaveLength(2)
    expect(owned.reduce((sum, count) => sum + count, 0)).toBe(BED_SHARDS)
  })
})

describe('what was begun for a shard', () => {
  async function stopped(ms: number, confirm = async () => undefined) {
    const bed = coordinatorBed()
    const one = bed.join('a', { work: { confirm } })
    await bed.clock.elapse(1000)
    const go = Promise.withResolvers<void>()
    const may = one.epochs.runWithin(0, async () => {
      await go.promise
      return one.epochs.mayWrite
    })
    bed.records.failing.set('write', new ApiError('Unavailable', 'no answer'))
    await bed.clock.elapse(ms)
    bed.records.failing.clear()
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs)
    expect(one.coordinator.owned).toBe(BED_SHARDS)
    go.resolve()
    return await may
  }

  const lost = () => Promise.reject(new Error('claimed by another replica'))

  it('may write after a while without the lease in which nobody can have had it', async () => {
    expect(await stopped(COORDINATOR_TIMES.holdsMs, lost)).toBe(true)
  })

  it('may write after a longer one if nobody has had it', async () => {
    expect(await stopped(GONE_MS)).toBe(true)
  })

  it('may write no more when somebody may have had it', async () => {
    expect(await stopped(COORDINATOR_TIMES.leaseMs, lost)).toBe(false)
  })

  it('may write until it is over when the shard is given up, and no longer', async () => {
    const bed = coordinatorBed()
    const ended = Promise.withResolvers<void>()
    const one = bed.join('a', { work: { stop: () => ended.promise } })
    await bed.clock.elapse(1000)
    const may = one.epochs.runWithin(0, () => () => one.epochs.runWithin(0, () => one.epochs.mayWrite))
    one.coordinator.leave()
    await bed.clock.elapse(1000)
    expect([one.coordinator.owns(0), may()]).toEqual([false, true])
    ended.resolve()
    await bed.clock.elapse(1000)
    expect(may()).toBe(false)
  })
})

describe('shards that are to be begun anew', () => {
  async function working() {
    const bed = coordinatorBed()
    const calls: string[] = []
    const work = {
      start: async (shards: readonly number[]) => void calls.push(`start ${shards.join()}`),
      stop: async (shard: number) => void calls.push(`stop ${shard}`),
    }
    const one = bed.join('a', { work })
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs)
    calls.length = 0
    return { bed, one, calls }
  }

  it('are ended, and begun again at once where nobody else has them', async () => {
    const { bed, one, calls } = await working()
    one.coordinator.restart([3, 5])
    expect([one.coordinator.owns(3), one.coordinator.holds(3), one.coordinator.holds(4)]).toEqual([
      false,
      false,
      true,
    ])
    await bed.clock.elapse(COORDINATOR_TIMES.retryEveryMs)
    expect(calls).toEqual(['stop 3', 'stop 5', 'start 3,5'])
    expect(one.coordinator.owned).toBe(BED_SHARDS)
  })

  it('are left alone where they are not its own', async () => {
    const { bed, one, calls } = await working()
    one.coordinator.restart([BED_SHARDS + 1])
    await bed.clock.elapse(COORDINATOR_TIMES.retryEveryMs)
    expect(calls).toEqual([])
  })
})

it('a lease that has lapsed owns nothing, and still holds what it had until others may have it', async () => {
  const bed = coordinatorBed()
  const one = bed.join('a')
  await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs)
  for (const kind of ['list', 'write'] as const)
    bed.records.failing.set(kind, new ApiError('Unavailable', 'down'))
  await bed.clock.elapse(COORDINATOR_TIMES.leaseMs)
  expect([one.coordinator.owned, one.coordinator.owns(3), one.coordinator.holds(3)]).toEqual([0, false, true])
  expect(one.coordinator.mayAct).toBe(false)
  expect(one.coordinator.leaseAgeMs).toBeGreaterThanOrEqual(COORDINATOR_TIMES.leaseMs)
  expect(one.lines).toContain('failed to renew the shards of this replica; retrying')
})
