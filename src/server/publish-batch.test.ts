import { expect, test } from 'vitest'
import { FakeClock, fixedRandom } from '../../test/support/fake-clock.ts'
import { logOn } from '../../test/support/log-on.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { type AcceptedEvent, MAX_SEGMENT_BYTES } from '../apis/delivery-segment.ts'
import { webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { type BatchResult, PublishingService, Subscriptions } from './publishing.ts'

const TYPE = 'environment.started'
const KNOWN = new Set([TYPE, 'billing.updated'])

/** Publishes without keys. */
async function bed({ endpoints = 1 } = {}) {
  const clock = new FakeClock()
  const resources = new MemoryStore(() => clock.now())
  const directory = new EndpointDirectory()
  for (let number = 0; number < endpoints; number += 1) {
    const made = await resources.create(webhookEndpoints, {
      metadata: { namespace: 'acme', name: `endpoint-${number}` },
      spec: { url: 'https://receiver.example', eventTypes: [TYPE] },
    })
    directory.apply(webhookEndpoint.parse(made))
  }
  const appends: (readonly AcceptedEvent[])[] = []
  const reserved: { deliveries: number; bytes: number; appended?: boolean }[] = []
  const shown: { payload: string; firstDelivery: number }[] = []
  const state = { fails: -1, open: 0, most: 0 }
  const publishing = new PublishingService({
    resources,
    store: logOn(resources, { clock }),
    directory,
    subscriptions: new Subscriptions(directory),
    catalogue: { get: (name) => (KNOWN.has(name) ? { metadata: { name }, spec: {} } : undefined) as never },
    validator: { validate: () => [] },
    behind: () => undefined,
    index: {
      appears: async () => false,
      segmentOf: () => undefined,
      appended: ({ firstDelivery }, [one]) =>
        void shown.push({ payload: one?.event.payload ?? '', firstDelivery }),
    },
    quota: { remaining: () => 100 },
    counts: {
      reserve: (_, deliveries, bytes) => {
        const one = { deliveries, bytes }
        reserved.push(one)
        return (appended) => void Object.assign(one, { appended })
      },
    },
    keys: {
      once: () => Promise.reject(new Error('no key')),
      each: () => Promise.reject(new Error('no key')),
    },
    eventLog: {
      append: async (events) => {
        state.open += 1
        state.most = Math.max(state.most, state.open)
        await new Promise((resolve) => setImmediate(resolve))
        state.open -= 1
        if (appends.length === state.fails) throw new Error('unavailable')
        appends.push(events)
        return { segment: `segment-${appends.length}`, version: 200, firstDelivery: 0 }
      },
    },
    clock,
    random: fixedRandom(),
  })
  return { publishing, appends, reserved, shown, state }
}

const event = (data: unknown, type = TYPE) => ({ type, dataText: JSON.stringify(data) })
const statuses = (results: readonly BatchResult[]) =>
  results.map((one) => ('errors' in one ? 'rejected' : 'accepted'))
const dataIn = (appends: readonly (readonly AcceptedEvent[])[]) =>
  appends.flat().map(({ event: { payload } }) => JSON.parse(payload).data)

test('a batch is stored in one append, in its order, and counted once', async () => {
  const { publishing, appends, reserved, shown } = await bed({ endpoints: 2 })
  const { results, replayed } = await publishing.publishBatch(
    'acme',
    [event(1), event(2), event(3, 'billing.updated')],
    {},
  )
  expect(results).toEqual(
    [2, 2, 0].map((deliveries) => ({ eventId: expect.any(String), deliveries, replayed: false })),
  )
  expect([appends.length, dataIn(appends), replayed]).toEqual([1, [1, 2, 3], false])
  expect(reserved).toEqual([{ deliveries: 4, bytes: expect.any(Number), appended: true }])
  expect(shown.map(({ firstDelivery }) => firstDelivery)).toEqual([0, 2, 4])
})

test('what no segment can hold is stored in several, one after the other', async () => {
  const { publishing, appends, state } = await bed()
  const large = 'x'.repeat(MAX_SEGMENT_BYTES / 3)
  const { results } = await publishing.publishBatch(
    'acme',
    [0, 1, 2, 3, 4, 5].map((number) => event({ number, large })),
    {},
  )
  expect(statuses(results)).toEqual(Array(6).fill('accepted'))
  expect(appends.map(({ length }) => length)).toEqual([2, 2, 2])
  expect(dataIn(appends).map(({ number }) => number)).toEqual([0, 1, 2, 3, 4, 5])
  expect(state.most).toBe(1)
})

test('invalid events are named and not sent, and the others are', async () => {
  const { publishing, appends } = await bed()
  const batch = [event(1), event(2, 'no.such'), { type: TYPE, dataText: undefined }, event(4)]
  const { results } = await publishing.publishBatch('acme', batch, {})
  expect(statuses(results)).toEqual(['accepted', 'rejected', 'rejected', 'accepted'])
  expect(results.slice(1, 3)).toEqual([
    { errors: [{ pointer: '/events/1/type', message: 'EventType no.such does not exist' }] },
    { errors: [{ pointer: '/events/2/data', message: 'is required' }] },
  ])
  expect(dataIn(appends)).toEqual([1, 4])
})

test('a batch without a valid event is rejected with the first of its errors', async () => {
  const { publishing, appends, reserved } = await bed()
  const batch = Array.from({ length: 30 }, (_, number) => event(number, 'no.such'))
  await expect(publishing.publishBatch('acme', batch, {})).rejects.toMatchObject({
    code: 'invalid',
    errors: Array.from({ length: 20 }, (_, number) => ({
      pointer: `/events/${number}/type`,
      message: 'EventType no.such does not exist',
    })),
  })
  expect([appends, reserved]).toEqual([[], []])
})

test('a batch with too many deliveries is rejected as a whole', async () => {
  const { publishing, appends } = await bed({ endpoints: 9 })
  const batch = Array.from({ length: 456 }, (_, number) => event(number))
  await expect(publishing.publishBatch('acme', batch, {})).rejects.toMatchObject({
    code: 'invalid',
    errors: [
      {
        pointer: '/events',
        message:
          'must result in at most 4,096 deliveries, but would result in 4,104; send fewer events in each batch',
      },
    ],
  })
  expect(appends).toEqual([])
})

test('a batch that breaks off releases what it has reserved, and the problem says that some of it was accepted', async () => {
  const { publishing, appends, reserved, shown, state } = await bed()
  state.fails = 1
  const large = 'x'.repeat(MAX_SEGMENT_BYTES / 2)
  await expect(publishing.publishBatch('acme', [event(large), event(large)], {})).rejects.toMatchObject({
    code: 'unavailable',
    detail: expect.stringContaining('has accepted only some of the events'),
  })
  expect([appends.length, reserved[0]?.appended, shown]).toEqual([1, false, []])
})

test('the time at which an event happened is in the body, in UTC, whenever it is accepted', async () => {
  const { publishing, appends } = await bed()
  const timestamp = '2026-01-30T23:30:00.5+01:00'
  const batch = [{ ...event(1), timestamp }, { ...event(2), timestamp: 'yesterday' }, event(3)]
  const { results } = await publishing.publishBatch('acme', batch, {})
  expect(statuses(results)).toEqual(['accepted', 'rejected', 'accepted'])
  expect(appends.flat().map(({ event: { payload } }) => JSON.parse(payload).timestamp)).toEqual([
    '2026-01-30T22:30:00.500Z',
    new Date(new FakeClock().now()).toISOString(),
  ])
})
