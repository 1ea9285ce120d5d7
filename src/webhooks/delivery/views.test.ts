import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { EndpointQueue } from './endpoint-queue.ts'
import { ViewWriter } from './views.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

function start(perSecond: number, share = 1) {
  const clock = new FakeClock()
  const giveUp = new AbortController()
  const written: string[] = []
  const queues = new Map<string, EndpointQueue>()
  const bed = { share, owns: true, leftOut: 0, lasts: 0, fails: 0 }
  const views = new ViewWriter({
    clock,
    log: { info() {}, warn() {}, error() {} },
    shards: { owns: () => bed.owns },
    giveUp: giveUp.signal,
    perSecond,
    share: () => bed.share,
    metrics: {
      viewLeftOut: () => {
        bed.leftOut += 1
      },
    },
  })
  /** A view for an endpoint, named `<organization>/<endpoint>`. */
  const add = (name: string, count = 1) => {
    const [namespace = '', endpoint = ''] = name.split('/')
    const queue = queues.get(name) ?? new EndpointQueue({ namespace, name: endpoint, uid: name })
    queues.set(name, queue)
    for (let number = 0; number < count; number += 1) {
      let wasTried = false
      const write = async () => {
        wasTried = true
        if (bed.lasts > 0) await new Promise<void>((resolve) => void clock.after(bed.lasts, resolve))
        if (bed.fails > 0) {
          bed.fails -= 1
          throw new Error('unavailable')
        }
        written.push(name)
        return true
      }
      views.add(queueDelivery(queue, number), { write, mayExist: () => wasTried })
    }
  }
  const told: string[] = []
  views.onLeftOut = ({ name }) => told.push(name)
  const abandoned: string[] = []
  views.onAbandoned = ({ queue }) => abandoned.push(queue.endpoint.name)
  return { bed, clock, giveUp, views, written, add, queues, told, abandoned }
}

describe('views', () => {
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
    expect(leftOut).toBeGreaterThan(700)
    expect(queues.get('loud/one')?.leftOutAt).toBe(clock.now())
    expect(told).toEqual(['one'])
    add('quiet/one', 1)
    expect(bed.leftOut).toBe(leftOut)
    await clock.elapse(SECOND)
    expect(written).toContain('quiet/one')
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

  it('are left to nobody after the shard went to another replica, and end with the process', async () => {
    const { add, bed, clock, giveUp, written, views } = start(1)
    add('acme/one', 5)
    await settle()
    bed.owns = false
    await clock.elapse(SECOND)
    expect([written.length, bed.leftOut]).toEqual([2, 1])
    giveUp.abort()
    await clock.elapse(10 * SECOND)
    expect(views.waiting).toBe(2)
  })
})
