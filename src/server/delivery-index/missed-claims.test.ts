import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ALL, BILLING, DeliveryIndexBed, event, sent } from '../../../test/support/delivery-index-bed.ts'
import { settle } from '../../../test/support/fake-clock.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ApiError } from '../../kube/client.ts'

/** More than lists and watches may be late while segments stay for two minutes. */
const LONG_MS = 101_000
const SHORT_MS = 99_000
const gone = new ApiError('Gone', 'too old', { status: 410 })
const down = new ApiError('Unavailable', 'connection refused')
const claim = { kind: 'claim', shards: [shardOf(BILLING.uid)] } as const

let bed: DeliveryIndexBed

beforeEach(() => {
  bed = new DeliveryIndexBed()
})

afterEach(async () => {
  await bed.index.stop()
})

/** A delivery whose shard `a` has claimed. @returns the version of its segment */
function claimedByA(): number {
  const version = bed.api.accept('segment', [event(1)])
  bed.api.tell('z-claim', [claim], { writer: 'a' })
  return version
}

/** `b` takes the shard over and delivers, and retention deletes both claims, unseen by the index. */
function takenOverByB(version: number): void {
  bed.api.tell('y-claim', [claim], { writer: 'b', silently: true })
  bed.api.tell('x-outcome', [sent(version)], { writer: 'b', silently: true })
  for (const name of ['z-claim', 'y-claim']) bed.api.remove('outcomesegments', name, true)
}

async function states(): Promise<string[]> {
  await settle(20)
  return (await bed.index.list([BILLING], ALL)).deliveries.map(({ status }) => status)
}

describe('what a new owner of a shard records', () => {
  it('counts where its claim was written and deleted while the log could not be watched', async () => {
    const version = claimedByA()
    await bed.start()
    await bed.clock.elapse(LONG_MS)
    takenOverByB(version)
    bed.api.kinds.outcomesegments.endWatches(gone)
    await bed.clock.elapse(1000)
    expect(await states()).toEqual(['succeeded'])
    expect(bed.index.stats().restarts).toBe(1)
  })

  it('counts where its claim was written and deleted between the list of claims and that of outcomes', async () => {
    const version = claimedByA()
    const { outcomesegments } = bed.api.kinds
    outcomesegments.listFaults.push(undefined, ...Array.from({ length: 100 }, () => down))
    bed.index.start()
    await bed.clock.elapse(LONG_MS)
    takenOverByB(version)
    outcomesegments.listFaults.length = 0
    await bed.clock.elapse(60_000)
    expect(await states()).toEqual(['succeeded'])
  })

  it('counts after a short silence without reading everything again, since its claim is still there', async () => {
    const version = claimedByA()
    await bed.start()
    await bed.clock.elapse(SHORT_MS)
    bed.api.tell('y-claim', [claim], { writer: 'b', silently: true })
    bed.api.tell('x-outcome', [sent(version)], { writer: 'b', silently: true })
    bed.api.kinds.outcomesegments.endWatches(gone)
    await bed.clock.elapse(1000)
    expect(await states()).toEqual(['succeeded'])
    expect(bed.index.stats().restarts).toBe(0)
  })

  it('is void where another claim followed', async () => {
    const version = claimedByA()
    bed.api.tell('y-claim', [claim], { writer: 'b' })
    await bed.start()
    bed.api.tell('x-outcome', [sent(version)], { writer: 'a' })
    expect(await states()).toEqual(['pending'])
  })
})
