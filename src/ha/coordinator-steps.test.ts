/** What a keeper does in each step, and when: with one clock and answers that come at once. */
import { afterEach, describe, expect, it } from 'vitest'
import {
  BED_SHARDS,
  type BedCoordinator,
  COORDINATOR_TIMES,
  CoordinatorBed,
} from '../../test/support/coordinator-bed.ts'
import { ApiError } from '../kube/client.ts'
import { sleep } from '../lib/time.ts'

const ALL = Array.from({ length: BED_SHARDS }, (_, shard) => shard)
const { renewEveryMs, leaseMs, drainMs, retryEveryMs, holdsMs, keepsMs } = COORDINATOR_TIMES

const beds: CoordinatorBed[] = []
afterEach(() => {
  for (const bed of beds.splice(0)) bed.end()
})

type Given = { start?: () => Promise<void>; confirm?: () => Promise<void>; stop?: () => Promise<void> }

/** What is asked of the work of a replica `a`, which is done at once unless it is given how. */
async function begin({
  start = async () => undefined,
  confirm = async () => undefined,
  stop = async () => undefined,
}: Given = {}) {
  const bed = new CoordinatorBed()
  beds.push(bed)
  const calls: string[] = []
  const work = {
    start: (shards: readonly number[]) => {
      calls.push(`start ${shards.join()}`)
      return start()
    },
    confirm: (shards: readonly number[]) => {
      calls.push(`confirm ${shards.join()}`)
      return confirm()
    },
    owned: (shards: readonly number[]) => void calls.push(`owned ${shards.join()}`),
    ownedAlone: (shards: readonly number[]) => void calls.push(`alone ${shards.join()}`),
    stop: (shard: number) => {
      calls.push(`stop ${shard}`)
      return stop()
    },
  }
  const one = bed.join('a', { work })
  await bed.clock.elapse(1000)
  return { bed, one, calls }
}

const byShard = (one: string, other: string) => Number(one.split(' ')[1]) - Number(other.split(' ')[1])

const ownedBy = ({ coordinator }: BedCoordinator) => ALL.filter((shard) => coordinator.owns(shard))

describe('a keeper', () => {
  it('begins its shards, says that it owns them, and renews its record from then on at its pace', async () => {
    const { bed, one, calls } = await begin()
    expect(calls).toEqual([`start ${ALL}`, `owned ${ALL}`, `alone ${ALL}`])
    await one.coordinator.settled
    const { length } = bed.records.calls
    await bed.clock.elapse(5 * renewEveryMs)
    expect(bed.records.calls.slice(length)).toEqual(Array(5).fill(['write a', 'list']).flat())
    expect(calls).toHaveLength(3)
  })

  it('goes on as soon as what it has begun is ready, and writes nothing twice until then', async () => {
    const ready = Promise.withResolvers<void>()
    const { bed, one, calls } = await begin({ start: () => ready.promise })
    let isSettled = false
    void one.coordinator.settled.then(() => {
      isSettled = true
    })
    const { length } = bed.records.calls
    await bed.clock.elapse(2 * renewEveryMs)
    expect(bed.records.calls.slice(length)).toEqual(Array(2).fill(['write a', 'list']).flat())
    expect([isSettled, ownedBy(one)]).toEqual([false, []])
    expect(ALL.filter((shard) => one.coordinator.holds(shard))).toEqual(ALL)
    ready.resolve()
    await bed.clock.elapse(0)
    expect([isSettled, ownedBy(one)]).toEqual([true, ALL])
    expect(calls).toEqual([`start ${ALL}`, `owned ${ALL}`, `alone ${ALL}`])
  })

  it('gives up what another one is to have, and nothing else', async () => {
    const { bed, one, calls } = await begin()
    const other = bed.join('b')
    await bed.clock.elapse(3 * renewEveryMs)
    const others = ownedBy(other)
    expect(others.length).toBeGreaterThan(0)
    expect(calls.slice(3).toSorted()).toEqual(others.map((shard) => `stop ${shard}`))
    expect(ownedBy(one)).toEqual(ALL.filter((shard) => !others.includes(shard)))
  })

  it('gives nothing away that could not be ended, and tries again at its pace until it is', async () => {
    let isBroken = true
    const stop = async () => {
      if (isBroken) throw new Error('not yet')
    }
    const { bed, one, calls } = await begin({ stop })
    const other = bed.join('b')
    await bed.clock.elapse(3 * renewEveryMs)
    const asked = new Set(calls.slice(3))
    expect(asked.size).toBeGreaterThan(0)
    expect(ownedBy(other)).toEqual([])
    const before = calls.length
    await bed.clock.elapse(2 * renewEveryMs)
    expect(calls.slice(before).toSorted()).toEqual([...asked, ...asked].toSorted())
    expect(one.lines).toContain('failed to release a shard; retrying')
    isBroken = false
    await bed.clock.elapse(2 * renewEveryMs)
    expect(ownedBy(other).map((shard) => `stop ${shard}`)).toEqual([...asked].toSorted(byShard))
  })

  it('goes on with what it had after a lapse in which nobody can have had it', async () => {
    const { bed, one, calls } = await begin()
    bed.records.failing.set('write', new ApiError('Unavailable', 'no answer'))
    await bed.clock.elapse(holdsMs)
    expect([one.coordinator.owned, ownedBy(one)]).toEqual([0, []])
    expect(one.lines).toContain('failed to renew the shards of this replica; retrying')
    bed.records.failing.clear()
    await bed.clock.elapse(retryEveryMs)
    expect(calls.slice(3)).toEqual([`owned ${ALL}`, `alone ${ALL}`])
    expect(ownedBy(one)).toEqual(ALL)
  })

  /** A lapse in which another replica can have taken its shards over. */
  async function lapse({ bed }: Awaited<ReturnType<typeof begin>>, ms = keepsMs): Promise<void> {
    bed.records.failing.set('write', new ApiError('Unavailable', 'no answer'))
    await bed.clock.elapse(ms)
    bed.records.failing.clear()
    await bed.clock.elapse(retryEveryMs)
  }

  it.each([keepsMs, leaseMs + drainMs])(
    'asks whether anybody has taken its shards over after a lapse of %i ms, writes nothing until it knows, and goes on if not',
    async (ms) => {
      const known = Promise.withResolvers<void>()
      const begun = await begin({ confirm: () => known.promise })
      const { bed, one, calls } = begun
      const epoch = one.epochs.current(0)
      await lapse(begun, ms)
      expect([calls.slice(3), ownedBy(one), epoch.state]).toEqual([[`confirm ${ALL}`], [], 'doubtful'])
      known.resolve()
      await bed.clock.elapse(0)
      expect(calls.slice(4)).toEqual([`owned ${ALL}`, `alone ${ALL}`])
      expect([ownedBy(one), epoch.state]).toEqual([ALL, 'valid'])
    },
  )

  it('begins anew if somebody has, or if it cannot know', async () => {
    const begun = await begin({ confirm: () => Promise.reject(new Error('claimed by b')) })
    const { one, calls } = begun
    const epoch = one.epochs.current(0)
    await lapse(begun)
    const stops = ALL.map((shard) => `stop ${shard}`)
    expect(calls.slice(3)).toEqual([
      `confirm ${ALL}`,
      ...stops,
      `start ${ALL}`,
      `owned ${ALL}`,
      `alone ${ALL}`,
    ])
    expect(epoch.state).toBe('revoked')
    expect(one.lines).toContain('another replica may have taken shards over; acquiring them again')
  })

  it('gives up for good what it is to hand over after such a lapse', async () => {
    const begun = await begin({ confirm: () => new Promise(() => undefined) })
    const { one, calls } = begun
    const epoch = one.epochs.current(5)
    await lapse(begun)
    one.coordinator.restart([5])
    expect(epoch.state).toBe('revoked')
    expect(calls.slice(3)).toEqual([`confirm ${ALL}`])
  })

  it('starts shards when the lease of their owner has expired, and has them alone when its work must have ended', async () => {
    const { bed, one, calls } = await begin()
    const other = bed.join('b')
    await bed.clock.elapse(3 * renewEveryMs)
    const others = ownedBy(other)
    const { length } = calls
    other.end()
    await bed.clock.elapse(leaseMs - renewEveryMs - 1)
    expect(calls.slice(length)).toEqual([])
    await bed.clock.elapse(renewEveryMs + 1)
    expect(calls.slice(length)).toEqual([`start ${others}`, `owned ${others}`])
    expect([ownedBy(one), others.filter((shard) => one.coordinator.isAlone(shard))]).toEqual([ALL, []])
    await bed.clock.elapse(drainMs - renewEveryMs - 1)
    expect(calls.slice(length + 2)).toEqual([])
    await bed.clock.elapse(renewEveryMs + 1)
    expect(calls.slice(length + 2)).toEqual([`alone ${others}`])
    expect(others.every((shard) => one.coordinator.isAlone(shard))).toBe(true)
  })

  it('does not wait for what it had begun when its lease lapses', async () => {
    const aborted: unknown[] = []
    const bed = new CoordinatorBed()
    beds.push(bed)
    const start = (_: readonly number[], signal: AbortSignal) =>
      new Promise<void>((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted.push(signal.reason)
          reject(signal.reason)
        })
      })
    const one = bed.join('a', { work: { start } })
    await bed.clock.elapse(1000)
    bed.records.failing.set('write', new ApiError('Unavailable', 'no answer'))
    await bed.clock.elapse(holdsMs + 1000)
    expect(aborted).toHaveLength(1)
    expect(one.lines).not.toContain('failed to take over shards; retrying')
  })

  it('does not own what it was to give up while it was being taken over, though that succeeded', async () => {
    const ready = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    const { bed, one, calls } = await begin({ start: () => ready.promise, stop: () => ended.promise })
    one.coordinator.restart([5])
    ready.resolve()
    await bed.clock.elapse(retryEveryMs)
    const others = ALL.filter((shard) => shard !== 5)
    expect(calls).toEqual([`start ${ALL}`, `owned ${others}`, `alone ${others}`, 'stop 5'])
    expect(ownedBy(one)).toEqual(others)
    ended.resolve()
    await bed.clock.elapse(retryEveryMs)
    expect(calls.slice(4)).toEqual(['start 5', 'owned 5', 'alone 5'])
    expect(ownedBy(one)).toEqual(ALL)
  })

  it('says anew what it owns after a renewal that took longer than its lease stood', async () => {
    const { bed, one, calls } = await begin()
    const write = bed.records.write.bind(bed.records)
    bed.records.write = async (record, over) => {
      const version = await write(record, over)
      await sleep(bed.clock, holdsMs - 1000)
      return version
    }
    await bed.clock.elapse(renewEveryMs + holdsMs - 2500)
    expect(ownedBy(one)).toEqual([])
    await bed.clock.elapse(1000)
    expect(calls.slice(3)).toEqual([`owned ${ALL}`, `alone ${ALL}`])
    expect(ownedBy(one)).toEqual(ALL)
  })

  it('says that a start has failed', async () => {
    let isBroken = true
    const start = async () => {
      if (!isBroken) return
      isBroken = false
      throw new Error('broken')
    }
    const { one, bed } = await begin({ start })
    await bed.clock.elapse(renewEveryMs)
    expect(one.lines).toEqual(['failed to take over shards; retrying'])
    expect(ownedBy(one)).toEqual(ALL)
  })

  it('that leaves hands over at once, says so in its record, and asks for nothing more', async () => {
    const { bed, one, calls } = await begin()
    one.coordinator.leave()
    await bed.clock.elapse(retryEveryMs)
    expect(calls.slice(3).toSorted()).toEqual(ALL.map((shard) => `stop ${shard}`))
    expect(bed.records.byName.get('a')).toMatchObject({ view: [], draining: [] })
    const { length } = bed.records.calls
    await bed.clock.elapse(leaseMs)
    expect(bed.records.calls).toHaveLength(length)
  })

  it('says which shards it has given up and not ended, in their order, until they are', async () => {
    const ended = Promise.withResolvers<void>()
    const { bed, one } = await begin({ stop: () => ended.promise })
    one.coordinator.restart([5, 2])
    await bed.clock.elapse(retryEveryMs)
    expect(bed.records.byName.get('a')?.draining).toEqual([2, 5])
    expect(ownedBy(one)).toEqual(ALL.filter((shard) => shard !== 2 && shard !== 5))
    ended.resolve()
    await bed.clock.elapse(retryEveryMs)
    expect(bed.records.byName.get('a')?.draining).toEqual([])
    expect(ownedBy(one)).toEqual(ALL)
  })

  it('that is ended gives all up, and tries no end again that fails', async () => {
    const { bed, one, calls } = await begin({ stop: () => Promise.reject(new Error('it cannot be ended')) })
    one.end()
    await bed.clock.elapse(leaseMs)
    expect(calls.slice(3)).toEqual(ALL.map((shard) => `stop ${shard}`))
    expect(one.lines.filter((line) => line === 'failed to release a shard; retrying')).toHaveLength(
      BED_SHARDS,
    )
    expect(ownedBy(one)).toEqual([])
  })

  it('whose name another process takes gives all up, and asks for nothing more', async () => {
    const { bed, one, calls } = await begin()
    bed.join('a')
    await bed.clock.elapse(2 * renewEveryMs)
    expect(one.replaced()).toBe(true)
    expect(one.lines).toContain('another process uses the name of this replica')
    expect(calls.slice(3).toSorted()).toEqual(ALL.map((shard) => `stop ${shard}`))
  })
})

describe('one that comes back under its own name', () => {
  it('goes on at once with what its predecessor had claimed', async () => {
    const { bed, one } = await begin()
    bed.join('b')
    await bed.clock.elapse(3 * renewEveryMs)
    const before = ownedBy(one)
    one.end()
    const again = bed.join('a')
    await bed.clock.elapse(2 * retryEveryMs)
    expect(ownedBy(again)).toEqual(before)
  })

  it('first hears of the others where that one had left in order', async () => {
    const { bed, one } = await begin()
    bed.join('b')
    await bed.clock.elapse(3 * renewEveryMs)
    one.coordinator.leave()
    await bed.clock.elapse(renewEveryMs + retryEveryMs)
    const again = bed.join('a')
    await bed.clock.elapse(2 * retryEveryMs)
    expect(bed.records.byName.get('a')?.view).toEqual([])
    await bed.clock.elapse(2 * renewEveryMs)
    expect(ownedBy(again).length).toBeGreaterThan(0)
  })
})
