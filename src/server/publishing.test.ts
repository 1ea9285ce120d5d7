import { expect, test } from 'vitest'
import { FakeClock, fixedRandom } from '../../test/support/fake-clock.ts'
import { logOn } from '../../test/support/log-on.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { deliveryObjectName, sortableName } from '../apis/ids.ts'
import { webhookDeliveries } from '../apis/webhook-delivery.ts'
import { webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { QuotaExceeded } from '../webhooks/events/quota.ts'
import { PublishingService, Subscriptions } from './publishing.ts'

const TYPE = 'environment.started'

async function bed() {
  const clock = new FakeClock()
  const resources = new MemoryStore(() => clock.now())
  const directory = new EndpointDirectory()
  const state = {
    behind: undefined as string | undefined,
    appends: 0,
    comes: async () => false,
    room: 100 as number | QuotaExceeded,
  }
  const made = await resources.create(webhookEndpoints, {
    metadata: { namespace: 'acme', name: 'billing' },
    spec: { url: 'https://receiver.example', eventTypes: ['*'] },
  })
  const endpoint = webhookEndpoint.parse(made)
  directory.apply(endpoint)
  const publishing = new PublishingService({
    resources,
    store: logOn(resources, { clock }),
    directory,
    subscriptions: new Subscriptions(directory),
    catalogue: { get: (name) => ({ metadata: { name }, spec: {} }) as never },
    validator: { validate: () => [] },
    behind: () => state.behind,
    index: { appears: () => state.comes(), segmentOf: () => undefined, appended: () => undefined },
    quota: { remaining: () => state.room },
    counts: { reserve: () => () => undefined },
    keys: {
      once: () => Promise.reject(new Error('no key')),
      each: () => Promise.reject(new Error('no key')),
    },
    eventLog: {
      append: async () => {
        state.appends += 1
        return { segment: 'segment', version: 200, firstDelivery: 0 }
      },
    },
    clock,
    random: fixedRandom(),
  })
  return { clock, resources, endpoint, state, publishing }
}

const publication = { type: TYPE, dataText: '{}' }

test('nothing is published while it is not known which endpoints there are', async () => {
  const { state, publishing } = await bed()
  state.behind = 'this API replica is temporarily out of sync'
  await expect(publishing.publish('acme', publication, {})).rejects.toMatchObject({
    code: 'overloaded',
    retryAfter: 2,
    detail: 'This API replica is temporarily out of sync. Retry the request.',
  })
  expect(state.appends).toBe(0)
  state.behind = undefined
  expect(await publishing.publish('acme', publication, {})).toMatchObject({ deliveries: 1 })
})

const billing = (more: { size?: number; bytes?: number; held?: boolean }) => ({
  endpoint: { namespace: 'acme', name: 'billing', uid: 'u' },
  size: 0,
  bytes: 0,
  held: false,
  ...more,
})

test.each<{ room: Omit<QuotaExceeded, 'message'>; want: string }>([
  {
    room: { reason: 'TooManyPending', used: 20_000, fullest: billing({ size: 19_500 }) },
    want: 'The event was not accepted: the organization has 20,000 unfinished deliveries, 19,500 of them for the endpoint whe_billing. Fix its receiver, or disable or delete the endpoint.',
  },
  {
    room: { reason: 'TooManyPending', used: 0 },
    want: 'The event was not accepted: the limit on the number of unfinished deliveries has been reached. Retry later.',
  },
  {
    room: { reason: 'TooManyUnfinishedBytes', used: 67_108_864, fullest: billing({ bytes: 60_000_000 }) },
    want: "The event was not accepted: the organization's unfinished deliveries take up 67,108,864 bytes, of which 60,000,000 are for the endpoint whe_billing. Fix its receiver, or delete the endpoint.",
  },
  {
    room: { reason: 'TooManyUnfinishedBytes', used: 2048, fullest: billing({ bytes: 2000, held: true }) },
    want: "The event was not accepted: the organization's unfinished deliveries take up 2,048 bytes, of which 2,000 are for the endpoint whe_billing. Enable or delete the endpoint.",
  },
  {
    room: { reason: 'TooManyUnfinishedBytes', used: 0 },
    want: 'The event was not accepted: the limit on the total payload size of unfinished deliveries has been reached. Retry later.',
  },
  {
    room: { reason: 'TooManyWrittenBytes', used: 9 },
    want: 'The event was not accepted: the limit on data written per 10-minute period has been reached. Retry later.',
  },
])('the answer says what is full and what helps: $room.reason, $room.used', async ({ room, want }) => {
  const { state, publishing } = await bed()
  state.room = { ...room, message: 'Publishing is paused and new events wait: figures of others.' }
  await expect(publishing.publish('acme', publication, {})).rejects.toMatchObject({
    code: 'intake_full',
    detail: want,
    retryAfter: 5,
  })
  expect(state.appends).toBe(0)
})

/** The object of a delivery. */
async function store({ resources, clock }: Awaited<ReturnType<typeof bed>>, endpointUid: string, of: string) {
  const event = sortableName(clock.now(), new Uint8Array(10))
  await resources.create(webhookDeliveries, {
    metadata: { namespace: 'acme', name: deliveryObjectName(event, of) },
    spec: {
      endpoint: 'billing',
      endpointUid,
      deliveryId: `msg_${event}`,
      eventType: TYPE,
      position: '1/0',
      payload: '{}',
      writtenAt: '2026-01-31T12:00:00.000Z',
    },
  })
  return { organization: 'acme', endpointId: 'whe_billing', deliveryId: `msg_${event}` }
}

test('a delivery that another process has just accepted can be delivered again', async () => {
  const given = await bed()
  const { publishing, state, endpoint } = given
  const { uid } = endpoint.metadata
  const id = {
    organization: 'acme',
    endpointId: 'whe_billing',
    deliveryId: `msg_${sortableName(given.clock.now(), new Uint8Array(10))}`,
  }
  await expect(publishing.redeliver(id, {})).rejects.toMatchObject({ code: 'not_found' })
  state.comes = async () => {
    await store(given, uid, uid)
    return true
  }
  expect(await publishing.redeliver(id, {})).toMatchObject({ deliveries: 1 })
})

test("a delivery whose object has the name of another endpoint's is not delivered again to that", async () => {
  const given = await bed()
  const id = await store(given, 'another', given.endpoint.metadata.uid)
  await expect(given.publishing.redeliver(id, {})).rejects.toMatchObject({ code: 'not_found' })
})
