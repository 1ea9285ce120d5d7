import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { shardOf } from '../../ha/assignment.ts'
import { OwnershipEpochs } from '../../ha/ownership.ts'
import { EndpointQueue } from './endpoint-queue.ts'
import { ViewWriter } from './views.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

function start(perSecond: number, share = 1) {
  const clock = new FakeClock()
  const giveUp = new AbortController()
  const written: string[] = []
  const queues = new Map<string, EndpointQueue>()
  const bed = { share, owns: true, leftOut: 0, lasts: 0, fails: 0, rejects: false, hangs: '' }
  const epochs = new OwnershipEpochs()
  const views = new ViewWriter({
    clock,
    log: { info() {}, warn() {}, error() {} },
    shards: { owns: () => bed.owns, epochs },
    giveUp: giveUp.signal,
    perSecond,
    share: () => bed.share,
    metrics: {
      viewLeftOut: () => {
        bed.leftOut += 1
      },
    },
  })
  const closed: string[] = []
  const takesTime = async (name: string) => {
    const lasts = bed.hangs === name ? MINUTE : bed.lasts
    if (lasts > 0) await new Promise<void>((resolve) => void clock.after(lasts, resolve))
  }
  /** Views for an endpoint, named `<organization>/<endpoint>`. @param isPromised whether they were, so that their entries are open */
  const add = (name: string, count = 1, isPromised = false) => {
    const [namespace = '', endpoint = ''] = name.split('/')
    const queue = queues.get(name) ?? new EndpointQueue({ namespace, name: endpoint, uid: name })
    queues.set(name, queue)
    for (let number = 0; number < count; number += 1) {
      let wasTried = false
      const write = async () => {
        wasTried = true
        await takesTime(name)
        if (bed.fails > 0) {
          bed.fails -= 1
          throw new Error('unavailable')
        }
        if (bed.rejects) return 'refused' as const
        written.push(name)
        return 'stored' as const
      }
      const promise = isPromised ? { closeEntry: () => void closed.push(name) } : {}
      views.add(queueDelivery(queue, number), { write, mayExist: () => wasTried, ...promise })
    }
  }
  const told: string[] = []
  views.onLeftOut = ({ name }) => told.push(name)
  const abandoned: string[] = []
  views.onAbandoned = ({ queue }) => abandoned.push(queue.endpoint.name)
  return { bed, clock, epochs, giveUp, views, written, add, queues, told, abandoned, closed }
}

describe('views', () => {
  it('of an earlier ownership of the shard are not written when that is owned again', async () => {
    const { add, clock, epochs, written, abandoned, queues } = start(1)
    add('acme/one')
    const { shard = -1 } = queues.get('acme/one') ?? {}
    epochs.begin([shard])
    epochs.runWithin(shard, () => add('acme/one', 4))
    await settle()
    const atOnce = written.length
    epochs.end([shard])
    epochs.begin([shard])
    epochs.runWithin(shard, () => add('acme/one'))
    await clock.elapse(10 * SECOND)
    expect([atOnce, written.length, abandoned]).toEqual([2, 3, []])
  })

  it('are written at once while there are few, and then at the rate', async () => {
    const { add, clock, written, views } = start(10)
    add('acme/one', 60)
    await settle()
    expect(written).toHaveLength(20)
    await clock.elapse(SECOND)
    expect(written).toHaveLength(30)
    await clock.elapse(3 * SECOND)
    expect([written.length, views.waiting]).toEqual([60, 0])
  })

  it('are abandoned when they are left out after a write that failed, since their object may exist', async () => {
    const { add, bed, clock, abandoned } = start(1)
    bed.fails = 1000
    add('acme/one')
    await clock.elapse(2 * MINUTE)
    expect([abandoned, bed.leftOut]).toEqual([['one'], 1])
    bed.owns = false
    add('acme/other')
    await clock.elapse(SECOND)
    expect([abandoned, bed.leftOut]).toEqual([['one'], 2])
  })

  it('take turns by organization, then by endpoint', async () => {
    const { add, clock, written } = start(1)
    add('loud/busy', 12)
    add('loud/calm', 1)
    add('quiet/one', 1)
    await clock.elapse(10 * SECOND)
    expect(written.slice(2, 6)).toEqual(['quiet/one', 'loud/calm', 'loud/busy', 'loud/busy'])
  })

  it('are left out where their organization has half a minute of them waiting, and others still get theirs', async () => {
    const { add, bed, clock, written, queues, views, told } = start(10)
    add('loud/one', 1000)
    expect(views.waiting).toBeLessThanOrEqual(300)
    const leftOut = bed.leftOut
    expect(leftOut).toBeGreaterThanOrEqual(699)
    expect(queues.get('loud/one')?.leftOut).toEqual({ at: clock.now(), rejectedAt: undefined })
    expect(told).toEqual(['one'])
    add('quiet/one', 1)
    expect(bed.leftOut).toBe(leftOut)
    await clock.elapse(SECOND)
    expect(written).toContain('quiet/one')
  })

  it('of others are written while those of one organization hang, and these are left out once they are too old', async () => {
    const { add, bed, clock, written, views } = start(10)
    bed.hangs = 'loud/one'
    add('loud/one', 100)
    await clock.elapse(5 * SECOND)
    add('quiet/one', 20)
    await clock.elapse(5 * SECOND)
    expect(written.filter((name) => name === 'quiet/one')).toHaveLength(20)
    expect(written).not.toContain('loud/one')
    await clock.elapse(2 * MINUTE)
    expect(views.waiting).toBe(0)
    expect(bed.leftOut).toBe(92)
  })

  it('of a small burst are all written, however many a neighbor has waiting', async () => {
    const { add, bed, clock, written } = start(15)
    add('loud/one', 1000)
    await clock.elapse(10 * SECOND)
    add('loud/one', 1000)
    const leftOut = bed.leftOut
    add('quiet/one', 20)
    expect(bed.leftOut).toBe(leftOut)
    await clock.elapse(5 * SECOND)
    expect(written.filter((name) => name === 'quiet/one')).toHaveLength(20)
  })

  it('are as many for each of many loud organizations as can be written in half a minute', async () => {
    const { add, clock, written } = start(10)
    for (let number = 0; number < 10; number += 1) add(`organization-${number}/one`, 100)
    await clock.elapse(30 * SECOND)
    const perOrganization = Map.groupBy(written, (name) => name)
    expect(perOrganization.size).toBe(10)
    for (const views of perOrganization.values()) expect(views.length).toBeGreaterThanOrEqual(30)
  })

  it('that are rejected are reported as rejected, even if others were left out before', async () => {
    const { add, bed, clock, queues, told } = start(10)
    add('acme/one', 400)
    expect(told).toEqual(['one'])
    bed.rejects = true
    await clock.elapse(SECOND)
    expect(queues.get('acme/one')?.leftOut).toEqual({ at: clock.now(), rejectedAt: clock.now() })
    const { rejectedAt } = queues.get('acme/one')?.leftOut ?? {}
    add('acme/one', 400)
    expect(queues.get('acme/one')?.leftOut?.rejectedAt).toBe(rejectedAt)
    expect(told).toEqual(['one', 'one'])
  })

  it('have the share of this replica, and none where they are turned off', async () => {
    const { add, clock, written } = start(10, 0.5)
    add('acme/one', 40)
    await settle()
    const atOnce = written.length
    await clock.elapse(2 * SECOND)
    expect(written.length - atOnce).toBe(10)
    const off = start(0)
    off.add('acme/one', 3)
    await off.clock.elapse(SECOND)
    expect([off.written, off.bed.leftOut]).toEqual([[], 3])
  })

  it('come at half the rate while the API server is slow', async () => {
    const { add, bed, clock, written } = start(10)
    add('acme/one', 20)
    await settle()
    bed.lasts = 1500
    add('acme/one')
    await clock.elapse(2 * SECOND)
    bed.lasts = 0
    add('acme/one', 100)
    await settle()
    const before = written.length
    await clock.elapse(2 * SECOND)
    expect(written.length - before).toBe(10)
  })

  it('are tried again after a failure, for a minute', async () => {
    const { add, bed, clock, written } = start(10)
    bed.fails = 3
    add('acme/one')
    await clock.elapse(10 * SECOND)
    expect([written, bed.leftOut]).toEqual([['acme/one'], 0])
    bed.fails = 1000
    add('acme/one')
    await clock.elapse(70 * SECOND)
    expect([written.length, bed.leftOut]).toEqual([1, 1])
  })

  it('that were promised are written even if there is no room any more, and close their entries then', async () => {
    const { add, bed, clock, written, closed, views } = start(1)
    add('acme/one', 33)
    expect(views.hasRoom('acme')).toBe(false)
    add('acme/promised', 2, true)
    expect([bed.leftOut, closed]).toEqual([2, []])
    await clock.elapse(MINUTE)
    expect(written.filter((name) => name === 'acme/promised')).toHaveLength(2)
    expect([closed.length, bed.leftOut]).toEqual([2, 2])
  })

  it('that were promised close their entries when they are left out', async () => {
    const { add, bed, clock, closed } = start(1)
    bed.fails = 1000
    add('acme/one', 1, true)
    await clock.elapse(30 * SECOND)
    expect(closed).toEqual([])
    await clock.elapse(MINUTE)
    expect([closed, bed.leftOut]).toEqual([['acme/one'], 1])
    bed.owns = false
    add('acme/other', 1, true)
    await clock.elapse(SECOND)
    expect(closed).toEqual(['acme/one', 'acme/other'])
  })

  it('that were promised leave their entries to the next owner of a shard that was lost', async () => {
    const { add, clock, epochs, queues, closed, written } = start(1)
    add('acme/one', 3)
    const { shard = -1 } = queues.get('acme/one') ?? {}
    epochs.begin([shard])
    epochs.runWithin(shard, () => add('acme/one', 1, true))
    epochs.end([shard])
    await clock.elapse(MINUTE)
    expect([written.length, closed]).toEqual([3, []])
  })

  it('are left to nobody after the shard went to another replica, and end with the process', async () => {
    const { add, bed, clock, giveUp, written, views } = start(1)
    add('acme/one', 5)
    await settle()
    bed.owns = false
    await clock.elapse(SECOND)
    expect([written.length, bed.leftOut, views.waiting]).toEqual([2, 3, 0])
    bed.owns = true
    add('acme/one', 3)
    await settle()
    giveUp.abort()
    await clock.elapse(10 * SECOND)
    expect(views.waiting).toBe(2)
  })

  it.each([
    { why: 'too old', old: 5, fresh: 5 },
    { why: 'too old', old: 25, fresh: 5 },
    { why: 'too old and promised', old: 20, fresh: 5, isPromised: true },
    { why: 'of a shard that is gone', old: 25, fresh: 5, isGone: true },
  ])(
    'that are left out since they are $why cost nothing of the rate: $old',
    async ({ old, fresh, isPromised = false, isGone = false }) => {
      const { add, bed, clock, epochs, written, closed } = start(1)
      const shard = shardOf('acme/old')
      add('acme/one', 2)
      await settle()
      epochs.begin([shard])
      epochs.runWithin(shard, () => add('acme/old', old, isPromised))
      // No shards for a while: nothing is written.
      bed.share = 0
      if (isGone) epochs.end([shard])
      await clock.elapse(isGone ? SECOND : 61 * SECOND)
      bed.share = 1
      add('acme/fresh', fresh)
      await clock.elapse(6 * SECOND)
      expect(written.filter((name) => name === 'acme/fresh')).toHaveLength(fresh)
      expect(written.filter((name) => name === 'acme/old')).toEqual([])
      expect([bed.leftOut, closed.length]).toEqual([isGone ? 0 : old, isPromised ? old : 0])
    },
  )
})
