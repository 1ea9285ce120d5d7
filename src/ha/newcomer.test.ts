import { describe, expect, it } from 'vitest'
import { chanceOf } from '../../test/support/chance.ts'
import { OrderedWork } from '../../test/support/ordered-work.ts'
import {
  type Replica,
  SHARDS,
  SimulatedRecords,
  startReplica,
  TIMES,
} from '../../test/support/shard-world.ts'
import { SimulatedTime } from '../../test/support/simulated-time.ts'

/** A round of looking, and a few calls of a second or more. */
const WORK_MS = 5000
const SEEDS = [1, 2, 3, 4, 5]

function worldOf(seed: number) {
  const time = new SimulatedTime()
  const chance = { fraction: chanceOf(seed) }
  const records = new SimulatedRecords(time, chance)
  records.calm()
  const work = new OrderedWork(time, chance, SHARDS)
  const replicas: Replica[] = []
  const join = (name: string): Replica => {
    const session = `${name}.${replicas.length}`
    const replica = startReplica({ name, isNameOwn: true, session, time, records, work, chance })
    replicas.push(replica)
    return replica
  }
  const unowned = () =>
    Array.from({ length: SHARDS }, (_, shard) => shard).filter(
      (shard) => !replicas.some(({ clock, coordinator }) => !clock.isDead && coordinator.owns(shard)),
    )
  return { time, work, join, unowned }
}

describe('a replica that comes after another one has died', () => {
  it.each(SEEDS)('does not hold up what the others go on with (seed %s)', async (seed) => {
    const { time, work, join, unowned } = worldOf(seed)
    const [, , third] = ['r1', 'r2', 'r3'].map(join)
    await time.runUntil(20_000)
    third?.kill()
    await time.runUntil(40_000)
    const late = join('r4')
    await time.runUntil(20_000 + TIMES.leaseMs + TIMES.drainMs + WORK_MS)
    expect(unowned()).toEqual([])
    await time.runUntil(120_000)
    expect(unowned()).toEqual([])
    expect(late.coordinator.owned).toBeGreaterThan(0)
    expect(work.wrong).toEqual([])
  })

  it.each(SEEDS)('takes everything as soon as it may where all others have died (seed %s)', async (seed) => {
    const { time, work, join, unowned } = worldOf(seed)
    const before = ['r1', 'r2'].map(join)
    await time.runUntil(20_000)
    for (const one of before) one.kill()
    join('r3')
    await time.runUntil(20_000 + TIMES.leaseMs + TIMES.drainMs + WORK_MS)
    expect(unowned()).toEqual([])
    expect(work.wrong).toEqual([])
  })

  it('joins within seconds where all others live', async () => {
    const { time, join } = worldOf(1)
    join('r1')
    await time.runUntil(20_000)
    const second = join('r2')
    await time.runUntil(20_000 + TIMES.renewEveryMs * 2 + 1000)
    expect(second.coordinator.owned).toBeGreaterThan(0)
  })
})
