import { expect, it } from 'vitest'
import { calling } from '../../../test/support/faulty-api.ts'
import { RetentionBed } from '../../../test/support/retention-bed.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { ApiError } from '../../kube/client.ts'

const DAY = 24 * 60 * 60_000

async function oldLog(): Promise<RetentionBed> {
  const bed = new RetentionBed()
  await bed.segment('s1')
  await bed.outcomes('o1', 100)
  await bed.clock.elapse(2 * DAY)
  return bed
}

async function passes(bed: RetentionBed): Promise<void> {
  for (let n = 0; n < 10; n += 1) {
    await bed.retention.pass()
    await bed.clock.elapse(5000)
  }
}

it('nothing of the log goes from a replica whose log it is not', async () => {
  const bed = await oldLog()
  await passes(bed)
  expect(bed.names(deliverySegments)).toEqual(['s1'])
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual([])
})

it('nothing of it goes any more when it is another’s, whatever was planned', async () => {
  const bed = await oldLog()
  await bed.readLog()
  bed.retention.leaveLog()
  await passes(bed)
  expect(bed.names(deliverySegments)).toEqual(['s1'])
  expect(bed.retention.stats()).toMatchObject({ logSegments: 0, outcomeSegments: 0, logBytes: 0 })
})

it('what comes while it is another’s is not followed, and is known when it is this one’s again', async () => {
  const bed = await oldLog()
  await bed.readLog()
  bed.retention.leaveLog()
  await bed.segment('s2')
  expect(bed.retention.stats().logSegments).toBe(0)
  await bed.readLog()
  expect(bed.retention.stats().logSegments).toBe(2)
})

it('a look at the whole that is given up half way says nothing, and the next one says all', async () => {
  const bed = await oldLog()
  const mended = bed.api.fail(
    calling('list', deliverySegments),
    { before: new ApiError('Unavailable', 'no answer') },
    Number.MAX_SAFE_INTEGER,
  )
  let ended = false
  void bed.retention
    .followLog(() => Number.POSITIVE_INFINITY)
    .then(() => {
      ended = true
    })
  await bed.clock.elapse(10_000)
  expect(ended).toBe(false)
  bed.retention.leaveLog()
  await bed.clock.elapse(60_000)
  expect(ended).toBe(true)
  mended()
  await passes(bed)
  expect(bed.names(deliverySegments)).toEqual(['s1'])
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual([])
})
