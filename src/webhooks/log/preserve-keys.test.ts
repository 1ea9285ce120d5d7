import { expect, test } from 'vitest'
import { calling } from '../../../test/support/faulty-api.ts'
import { RetentionBed } from '../../../test/support/retention-bed.ts'
import { deliverySegments, readDeliverySegment } from '../../apis/delivery-segment.ts'
import { sortableName } from '../../apis/ids.ts'
import { ApiError } from '../../kube/client.ts'
import { KEY_LIFE_MS, type KeyRecord, keyRecordsOf } from './idempotency-keys.ts'

const MINUTE = 60_000
/** So tight that segments go as soon as they may. */
const TIGHT = { maxLogBytes: 1 }

function keyed(bed: RetentionBed, number = 1) {
  const id = sortableName(bed.clock.now(), new Uint8Array(10).fill(number))
  return { id, key: `key-${number}`, fingerprint: `asked-${number}` }
}

/** What the whole log says of keys. */
function records(bed: RetentionBed): KeyRecord[] {
  return bed.store.all(deliverySegments).flatMap((raw) => {
    const { metadata, spec } = readDeliverySegment(raw)
    return keyRecordsOf(spec, Number(metadata.resourceVersion))
  })
}

/** Segments that were written are seen, as the watch of the log shows them. */
async function settle(bed: RetentionBed): Promise<void> {
  await bed.outcomes(`o${bed.store.version}`, 1_000_000)
  await bed.clock.elapse(3 * MINUTE)
  await bed.settle()
}

test('what a segment says of a key outlives the segment, without the body, and names the place where it was', async () => {
  const bed = new RetentionBed(TIGHT)
  const { version } = await bed.segment('s1', 50_000, keyed(bed))
  const before = records(bed)
  await settle(bed)
  expect(bed.names(deliverySegments)).not.toContain('s1')
  expect(records(bed)).toEqual(before)
  expect(before).toMatchObject([{ kind: 'event', deliveries: 1, position: { version, index: 0 } }])
  expect(JSON.stringify(bed.store.all(deliverySegments)).length).toBeLessThan(2000)
})

test('a key that has stood for a day is not kept any more', async () => {
  const bed = new RetentionBed(TIGHT)
  await bed.segment('s1', 100, keyed(bed))
  await bed.clock.elapse(KEY_LIFE_MS)
  await settle(bed)
  expect(bed.names(deliverySegments)).toEqual([])
})

test('a segment whose keys cannot be written down stays, and one without keys goes', async () => {
  const bed = new RetentionBed(TIGHT)
  await bed.segment('s1', 100, keyed(bed))
  await bed.segment('s2', 100)
  bed.api.fail(
    calling('create', deliverySegments),
    { before: new ApiError('NoSpace', 'the store is full') },
    1000,
  )
  await settle(bed)
  expect(bed.names(deliverySegments)).toEqual(['s1'])
})

test('keys come through however often their segments are written anew', async () => {
  const bed = new RetentionBed(TIGHT)
  const before: KeyRecord[] = []
  for (let round = 1; round <= 5; round += 1) {
    await bed.segment(`s${round}`, 100, keyed(bed, round))
    before.push(...records(bed).filter(({ key }) => key === `key-${round}`))
    await settle(bed)
  }
  const places = new Map(records(bed).map((record) => [record.key, record]))
  expect([...places.values()].toSorted((a, b) => a.position.version - b.position.version)).toEqual(before)
})

test('a key of the future is kept for a day, however often its segment is written anew', async () => {
  const bed = new RetentionBed(TIGHT)
  const year = 365 * KEY_LIFE_MS
  bed.clock.setWallBy(year)
  await bed.segment('ahead', 100, keyed(bed))
  bed.clock.setWallBy(-year)
  const isKnown = () => records(bed).some(({ key }) => key === 'key-1')
  for (let round = 0; round < 8; round += 1) {
    await bed.segment(`s${round}`, 100, keyed(bed, 2))
    await settle(bed)
    expect(isKnown()).toBe(true)
    await bed.clock.elapse(KEY_LIFE_MS / 8)
  }
  await settle(bed)
  expect(isKnown()).toBe(false)
})
