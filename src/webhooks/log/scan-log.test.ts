import { expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { calling, FaultyApi } from '../../../test/support/faulty-api.ts'
import { logOn } from '../../../test/support/log-on.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { ApiError } from '../../kube/client.ts'
import { scanLog } from './segment-sweep.ts'

const namespace = 'davit-system'

function bed() {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const api = new FaultyApi(store)
  const complaints: string[] = []
  const complain = (_event: string, message: string) => void complaints.push(message)
  const log = { info: complain, warn: complain, error: complain }
  const ended = new AbortController()
  const scan = async () => {
    const scanning = scanLog({ store: logOn(api, { clock }), clock, log, signal: ended.signal })
    let over = false
    void scanning.finally(() => {
      over = true
    })
    while (!over) await clock.elapse(10)
    return await scanning
  }
  return { clock, store, api, complaints, ended, scan }
}

async function fill(store: MemoryStore, count: number, payload = '{}'): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    const event = `${`${at}`.padStart(26, '0')} acme test.event - - ${payload}`
    await store.create(deliverySegments, {
      metadata: { namespace, name: `s${at}` },
      spec: { writtenAt: 1, writer: 'test', events: [event], deliveries: '0 billing uid' },
    })
    await store.create(outcomeSegments, {
      metadata: { namespace, name: `o${at}` },
      spec: { writtenAt: 1, writer: 'test', lowWater: `${at}`, records: '101/0 moved' },
    })
  }
}

test('every segment of both kinds is found, with what retention decides on', async () => {
  const { clock, store, scan } = bed()
  const start = clock.now()
  await fill(store, 25)
  const found = await scan()
  expect(found?.segments).toHaveLength(25)
  expect(found?.segments).toContainEqual({
    name: 's0',
    version: 101,
    createdAt: start,
    organization: 'acme',
    bytes: expect.any(Number),
  })
  expect(found?.outcomes).toContainEqual({
    name: 'o7',
    version: 116,
    createdAt: start,
    lowWater: 7,
    bytes: expect.any(Number),
  })
})

test('of outcomes it is known whether they have claims', async () => {
  const { store, scan } = bed()
  for (const [name, records] of Object.entries({ o1: '101/0 moved', o2: '101/0 moved\nrelease 3 after 9' }))
    await store.create(outcomeSegments, {
      metadata: { namespace, name },
      spec: { writtenAt: 1, writer: 'test', lowWater: '0', records },
    })
  expect((await scan())?.outcomes.map(({ name, hasClaims = false }) => [name, hasClaims])).toEqual([
    ['o1', false],
    ['o2', true],
  ])
})

test('pages of large segments are small, pages of small ones large', async () => {
  const { store, api, scan } = bed()
  await fill(store, 30, `"${'x'.repeat(200_000)}"`)
  await scan()
  const pages = (type: typeof deliverySegments) => api.calls.filter(calling('list', type)).length
  expect(pages(deliverySegments)).toBe(1 + 10)
  expect(pages(outcomeSegments)).toBe(1 + 1)
})

test('a segment that cannot be read counts as well; of such outcomes it is not known what they speak of', async () => {
  const { store, scan } = bed()
  await store.create(deliverySegments, {
    metadata: { namespace, name: 's' },
    spec: { of: 'another version' },
  })
  await store.create(outcomeSegments, { metadata: { namespace, name: 'o' }, spec: { of: 'another version' } })
  expect(await scan()).toMatchObject({
    segments: [{ name: 's', version: 101, organization: '' }],
    outcomes: [{ name: 'o', version: 102, lowWater: 0 }],
  })
})

test('a page that is not answered is asked for again, and a list that has expired begins again', async () => {
  const { store, api, complaints, scan } = bed()
  await fill(store, 25)
  api.fail(calling('list', outcomeSegments), { before: new ApiError('Unavailable', 'no answer') })
  const gone = new ApiError('Gone', 'the page has expired')
  let lists = 0
  api.fail((call) => calling('list', deliverySegments)(call) && ++lists === 2, { before: gone })
  const found = await scan()
  expect(new Set(found?.segments.map(({ name }) => name)).size).toBe(25)
  expect(new Set(found?.outcomes.map(({ name }) => name)).size).toBe(25)
  expect(complaints).toHaveLength(2)
  expect(found?.segments.length).toBeGreaterThan(25)
})

test('it ends when it is told to', async () => {
  const { store, api, ended, scan } = bed()
  await fill(store, 25)
  api.fail(calling('list', deliverySegments), { hold: Promise.resolve().then(() => ended.abort()) })
  expect(await scan()).toBeUndefined()
})
