/** Which shards a replica says to have handed over: whoever takes them next believes that nothing of them is under way. */

import { expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'

async function taken(bed: EngineBed, shards: ReadonlySet<number>): Promise<{ inOrder: boolean }> {
  const started = bed.takeOver.start(shards, new AbortController().signal)
  await bed.elapse(1000)
  await started
  return { inOrder: [...shards].every((shard) => bed.follower.claims.wasReleasedCleanly(shard)) }
}

async function handedOver(bed: EngineBed, shards: ReadonlySet<number>): Promise<void> {
  const ended = bed.takeOver.end(shards)
  await bed.elapse(5000)
  await ended
}

it('what was begun before it is known what the one before has left is not handed over in order', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  const shards = new Set([shardOf(one.metadata.uid)])
  bed.engine.start()
  bed.api.fail(calling('list', webhookDeliveries), { before: new ApiError('Unavailable', 'down') }, 2)
  const abort = new AbortController()
  const failed = bed.takeOver.start(shards, abort.signal)
  failed.catch(() => undefined)
  await bed.elapse(20)
  abort.abort()
  await bed.elapse(1000)
  await bed.takeOver.end(shards)
  expect(await taken(bed, shards)).toEqual({ inOrder: false })
  await handedOver(bed, shards)
  expect(await taken(bed, shards)).toEqual({ inOrder: true })
})

it('what the one before may have begun, in a segment that was not shown yet, is not handed over in order', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  const shards = new Set([shardOf(one.metadata.uid)])
  bed.engine.start()
  bed.deliveredUpTo = bed.store.version
  await bed.append(bed.event([one]))
  await taken(bed, shards)
  await handedOver(bed, shards)
  expect(await taken(bed, shards)).toEqual({ inOrder: false })
  bed.deliveredUpTo = bed.store.version
  await handedOver(bed, shards)
  expect(await taken(bed, shards)).toEqual({ inOrder: true })
})

it('nor is it where that segment is shown while what is under way ends', async () => {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  const shards = new Set([shardOf(one.metadata.uid)])
  bed.engine.start()
  bed.deliveredUpTo = bed.store.version
  const late = await bed.append(bed.event([one]))
  await taken(bed, shards)
  bed.engine.wake(shards)
  await bed.accept(bed.event([one]))
  const ended = bed.takeOver.end(shards)
  await bed.elapse(1000)
  bed.follower.addSegment(late)
  bed.deliveredUpTo = bed.store.version
  bed.sender.attempts[0]?.end(200)
  await bed.elapse(5000)
  await ended
  expect(await taken(bed, shards)).toEqual({ inOrder: false })
})

it.each(['answered', 'lost'])(
  'an entry that is refused an object is handed over in order, and its log tells that an object may come: $0',
  async (call) => {
    const bed = new EngineBed()
    const one = await bed.endpoint('one', { ordered: true })
    const shards = new Set([shardOf(one.metadata.uid)])
    bed.engine.start()
    await taken(bed, shards)
    bed.engine.wake(shards)
    const waiting = bed.event([one])
    const showing = calling('create', webhookDeliveries, (body) =>
      JSON.stringify(body).includes(waiting.event.id),
    )
    if (call === 'lost') bed.api.fail(showing, { before: new ApiError('Unavailable', 'cut off') })
    bed.api.fail(showing, { before: new ApiError('Quota', 'full') }, 1000)
    await bed.accept(bed.event([one]), waiting)
    await bed.elapse(5000)
    expect(bed.objects).toHaveLength(1)
    bed.sender.attempts[0]?.end(500)
    await handedOver(bed, shards)
    expect(await taken(bed, shards)).toEqual({ inOrder: true })
    expect((await bed.records()).map(({ kind }) => kind)).toContain('creating')
  },
)
