/** Deliveries whose objects a quota rejects: they go on from the log as long as the log can keep them. */

import { describe, expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling, type FaultyApi } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { ApiError } from '../../kube/client.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** @returns a function that lifts the quota */
function forbidObjects(api: FaultyApi): () => void {
  const before = new ApiError('Quota', 'exceeded quota: deliveries')
  return api.fail(calling('create', webhookDeliveries), { before }, 1_000_000)
}

/** Disabled, failing, and ordered behind a failure: what waits without an end. */
async function waiting() {
  const bed = new EngineBed()
  const lift = forbidObjects(bed.api)
  const held = await bed.endpoint('held', { state: 'disabled' })
  const failing = await bed.endpoint('failing')
  const ordered = await bed.endpoint('ordered', { ordered: true })
  bed.sender.answers.set('/failing', 500).set('/ordered', 500).set('/held', 200)
  bed.start()
  await bed.accept(bed.event([held, failing, ordered]), bed.event([ordered]))
  return { bed, lift, held }
}

async function cancelReasons(bed: EngineBed): Promise<string[]> {
  return (await bed.records()).flatMap((record) => (record.kind === 'canceled' ? [record.reason] : []))
}

function endings(bed: EngineBed): Record<string, number> {
  const states = Object.entries(Object.groupBy(bed.ended, ({ state }) => state))
  return Object.fromEntries(states.map(([state, ended = []]) => [state, ended.length]))
}

describe('a delivery whose object is rejected', () => {
  it('is attempted as often as any other, and ends as any other', async () => {
    const { bed } = await waiting()
    await bed.elapse(10 * HOUR)
    expect(bed.begun('failing')).toHaveLength(8)
    expect(bed.begun('ordered')).toHaveLength(16)
    expect(endings(bed)).toEqual({ exhausted: 3 })
    expect(await cancelReasons(bed)).toEqual([])
    expect([bed.engine.counters.total, bed.segments.size]).toEqual([1, 1])
  })

  it('is sent when its endpoint is enabled hours later', async () => {
    const { bed, held } = await waiting()
    await bed.elapse(20 * HOUR)
    await bed.change(held, { state: 'enabled' })
    await bed.elapse(SECOND)
    expect(endings(bed)).toEqual({ exhausted: 3, succeeded: 1 })
    expect(bed.segments.size).toBe(0)
  })

  it('gets its object within minutes of the end of the quota, not with its next attempt', async () => {
    const { bed, lift } = await waiting()
    await bed.elapse(2 * HOUR)
    const attempts = bed.begun('failing').length
    lift()
    await bed.elapse(3 * MINUTE)
    expect(bed.begun('failing')).toHaveLength(attempts)
    expect(bed.objects).toHaveLength(2)
    expect(bed.objects.map(({ status }) => status)).toContainEqual(
      expect.objectContaining({ state: 'retrying', attemptCount: attempts }),
    )
    expect(bed.segments.size).toBe(0)
    bed.sender.answers.set('/failing', 200)
    await bed.elapse(6 * HOUR)
    expect(endings(bed)).toEqual({ exhausted: 2, succeeded: 1 })
    expect(bed.begun('failing')).toHaveLength(attempts + 1)
  })

  it('goes on after a restart', async () => {
    const { bed } = await waiting()
    await bed.elapse(2 * HOUR)
    const next = await bed.restarted(({ api, sender }) => {
      forbidObjects(api)
      sender.answers.set('/failing', 500).set('/ordered', 500)
    })
    await next.elapse(HOUR)
    expect(await cancelReasons(next)).toEqual([])
    expect(next.engine.counters.total).toBe(2)
  })

  it('is canceled when the log has kept it for its time', async () => {
    const { bed } = await waiting()
    await bed.elapse(24 * HOUR - MINUTE)
    expect(await cancelReasons(bed)).toEqual([])
    await bed.elapse(5 * MINUTE)
    expect(await cancelReasons(bed)).toEqual(['CannotStore'])
    expect([bed.engine.counters.total, bed.segments.size]).toEqual([0, 0])
  })

  it('is kept when the clock is set ahead by mistake', async () => {
    const { bed } = await waiting()
    await bed.elapse(HOUR)
    bed.clock.setWallBy(48 * HOUR)
    await bed.elapse(30 * MINUTE)
    bed.clock.setWallBy(-48 * HOUR)
    await bed.elapse(HOUR)
    expect(await cancelReasons(bed)).toEqual([])
  })

  it.each([
    { limit: 'bytes', limits: { bytes: 20_000 } },
    { limit: 'deliveries', limits: { deliveries: 20 } },
  ])('is canceled when too many $limit came after it, but not before ten minutes', async ({ limits }) => {
    const { bed, held } = await waiting()
    Object.assign(bed.keptInLog, limits)
    const good = await bed.endpoint('good')
    bed.sender.answers.set('/good', 200)
    const publish = async (count: number) => {
      for (let number = 0; number < count; number += 1) await bed.accept(bed.event([good]))
    }
    await publish(40)
    await bed.elapse(9 * MINUTE)
    expect(await cancelReasons(bed)).toEqual([])
    await bed.accept(bed.event([held]))
    await bed.elapse(10 * MINUTE)
    // The last one has few after it.
    expect(new Set(await cancelReasons(bed))).toEqual(new Set(['CannotStore']))
    expect([bed.engine.counters.total, bed.segments.size]).toEqual([1, 1])
    await publish(40)
    await bed.elapse(5 * MINUTE)
    expect([bed.engine.counters.total, bed.segments.size]).toEqual([0, 0])
  })

  it('is reported from the first one of its endpoint until none is left', async () => {
    const bed = new EngineBed()
    const told: string[] = []
    bed.engine.onRejected = ({ name }) => told.push(name)
    const lift = forbidObjects(bed.api)
    const endpoint = await bed.endpoint('one', { state: 'disabled' })
    const rejection = () => bed.engine.queueFor({ ...endpoint.metadata, namespace: 'acme' }).rejection
    bed.start()
    await bed.accept(bed.event([endpoint]), bed.event([endpoint]))
    await bed.elapse(MINUTE)
    expect([told, rejection()]).toEqual([['one'], 'exceeded quota: deliveries'])
    expect(bed.events.map(({ reason }) => reason)).toEqual(['CannotStoreDelivery', 'CannotStoreDelivery'])
    lift()
    await bed.elapse(3 * MINUTE)
    expect([told, rejection()]).toEqual([['one'], undefined])
  })

  it('is not canceled during an attempt, which may succeed', async () => {
    const { bed } = await waiting()
    await bed.elapse(2 * MINUTE)
    bed.sender.answers.delete('/failing')
    await bed.elapse(15 * MINUTE)
    const [attempt] = bed.underWay
    expect(attempt?.path).toBe('/failing')
    bed.keptInLog.deliveries = -1
    await bed.elapse(5 * MINUTE)
    attempt?.end(200)
    await bed.elapse(SECOND)
    expect(endings(bed)).toMatchObject({ succeeded: 1 })
  })
})
