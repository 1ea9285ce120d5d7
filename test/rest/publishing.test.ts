/** Publishing, pings and redeliveries over REST, on the real API server and with the real controller (interface §4.2, §6). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { ApiError } from '../../src/kube/client.ts'
import type { EndpointDraft } from '../../src/server/endpoint-resource.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { calling } from '../support/faulty-api.ts'
import { LIVE_SERVER_LIMITS, startLiveServer } from '../support/live-server.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { refusalOf } from '../support/refusal-of.ts'
import { makeOwnerKey, type RestServer, startRestServer } from '../support/rest-server.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'

let davit: TestDavit
let server: RestServer
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('rest-publishing')
  server = await startRestServer(davit, await makeOwnerKey(davit))
})

afterAll(async () => {
  await server?.stop()
  await davit?.stop()
  await receiver?.close()
})

async function make(path: string, more: Partial<EndpointDraft> = {}) {
  const draft = { url: `${receiver.url}/${path}`, eventTypes: ['member.joined'], ...more }
  const { endpoint } = await server.endpoints.create(davit.organization, draft, {})
  return { organization: davit.organization, endpointId: endpoint.endpointId }
}

function publish(dataText: string, type = TYPE) {
  return server.publishing.publish(davit.organization, { type, dataText }, {})
}

/** The delivery as a reader finds it right after the answer. */
async function line(id: { organization: string; endpointId: string }, deliveryId: string) {
  const name = id.endpointId.slice('whe_'.length)
  const { uid } = server.directory.get(id.organization, name)?.endpoint.metadata ?? { uid: '' }
  const { deliveries } = await server.index.list([{ namespace: id.organization, name, uid }], { limit: 10 })
  return deliveries.find((delivery) => delivery.deliveryId === deliveryId)
}

describe('publishing', () => {
  test('reaches every endpoint that subscribes, to the digit, under the id that was answered', async () => {
    await make('one', { eventTypes: [TYPE] })
    await make('two', { eventTypes: ['*'] })
    await make('none')
    const data = '{"n":9007199254740993,"x":1.0,"e":1e2,"s":"\\u00e9\\/","b":1,"a":2}'
    const { eventId, deliveries, replayed } = await publish(data)
    expect({ eventId, deliveries, replayed }).toEqual({
      eventId: expect.stringMatching(/^msg_[0-9a-z]{26}$/),
      deliveries: 2,
      replayed: false,
    })
    for (const path of ['/one', '/two']) {
      const request = (await receiver.waitFor(1, { path })).at(-1)
      expect(request?.headers['webhook-id']).toBe(eventId)
      expect(request?.body.toString()).toContain(`"data":${data}}`)
    }
    expect(receiver.received('/none')).toEqual([])
  })

  test('can be read in the log at once', async () => {
    const id = await make('log', { eventTypes: ['billing.updated'] })
    const { eventId } = await publish('{}', 'billing.updated')
    expect(await line(id, eventId)).toMatchObject({ eventType: 'billing.updated' })
  })

  test('is accepted where nobody subscribes, and can be read', async () => {
    const type = await ownEventType(davit)
    await until(
      async () => server.catalogue.get(type),
      () => 'the type is not known',
    )
    const { endpoints } = await server.endpoints.list(davit.organization, { limit: 200 })
    for (const { endpointId, eventTypes } of endpoints)
      if (eventTypes.includes('*'))
        await server.endpoints.remove({ organization: davit.organization, endpointId }, {})
    const published = await publish('null', type)
    expect(published).toEqual({ eventId: expect.stringMatching(/^msg_/), deliveries: 0, replayed: false })
    const { eventId } = published
    const event = await server.events.read(davit.organization, eventId)
    expect(event).toMatchObject({ eventId, type, deliveries: 0 })
    expect(JSON.parse(event?.payload ?? '')).toMatchObject({ type, data: null })
    expect(await server.events.read('other', eventId)).toBeUndefined()
    const { events } = await server.events.list(davit.organization, { limit: 1, type, include: 'payload' })
    expect(events).toEqual([event])
  })

  test.each([
    { why: 'an unknown type', type: 'no.such', data: '{}', want: '/type' },
    { why: 'a reserved type', type: 'webhook.ping', data: '{}', want: '/type' },
    { why: 'data that does not fit the schema', type: TYPE, data: '{"name":7}', want: '/data/name' },
  ])('refuses $why with its place', async ({ type, data, want }) => {
    const { code, errors = [] } = await refusalOf(publish(data, type))
    expect({ code, pointers: errors.map(({ pointer }) => pointer) }).toEqual({
      code: 'invalid',
      pointers: [want],
    })
  })

  test('names the endpoint that is in the way when as much waits as may', async () => {
    receiver.answer('/stuck', { status: 500 })
    const id = await make('stuck', { eventTypes: [TYPE] })
    const tight = await startLiveServer(davit, {
      intake: { ...LIVE_SERVER_LIMITS.intake, pending: { organization: 1, all: 1000 } },
    })
    const ask = () => tight.publishing.publish(davit.organization, { type: TYPE, dataText: '{}' }, {})
    await until(
      async () => ([...tight.index.unfinished()].length === 0 ? true : undefined),
      () => 'something is left of before',
    )
    const answers = await Promise.allSettled([ask(), ask(), ask()])
    expect(answers.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected'])
    await until(
      async () => ([...tight.index.unfinished()].length === 1 ? true : undefined),
      () => 'other deliveries do not end',
    )
    davit.clock.jump(1000)
    const refusal = await refusalOf(ask())
    expect(refusal).toMatchObject({ code: 'intake_full', retryAfter: expect.any(Number) })
    expect(refusal.detail).toBe(
      `The event was not accepted: the organization has 1 unfinished delivery, 1 of them for the endpoint ${id.endpointId}. Fix its receiver, or disable or delete the endpoint.`,
    )
    await tight.endpoints.remove(id, {})
    await tight.stop()
  })

  test.each([
    { why: 'the store is full', kind: 'NoSpace' as const, want: 'storage (etcd) is full' },
    { why: 'the API server refuses', kind: 'Forbidden' as const, want: 'is not accepting events right now' },
  ])('says so when $why', async ({ kind, want }) => {
    await make('space', { eventTypes: [TYPE] })
    server.api.fail(calling('create', deliverySegments), { before: new ApiError(kind, 'no') })
    const refusal = await refusalOf(publish('{}'))
    expect(refusal).toMatchObject({ code: 'overloaded', retryAfter: expect.any(Number) })
    expect(refusal.detail).toContain(want)
  })
})

describe('a ping', () => {
  test('is one delivery to that endpoint, whatever it subscribes to, and can be read at once', async () => {
    const id = await make('pinged')
    await make('bystander', { eventTypes: ['*'] })
    const before = receiver.received('/bystander').length
    const { eventId } = await server.publishing.ping(id, {})
    expect(await line(id, eventId)).toMatchObject({ eventType: 'webhook.ping' })
    const [request] = await receiver.waitFor(1, { path: '/pinged' })
    expect(request?.headers['webhook-id']).toBe(eventId)
    expect(JSON.parse(request?.body.toString() ?? '')).toMatchObject({
      type: 'webhook.ping',
      data: { endpointId: id.endpointId },
    })
    expect(receiver.received('/bystander').length).toBe(before)
  })
})

describe('a redelivery', () => {
  test('has the same type and bytes, a fresh id, and one receiver', async () => {
    const path = 'again'
    const id = await make(path, { eventTypes: [TYPE] })
    const { eventId } = await publish('{"n":1.0}')
    const [first] = await receiver.waitFor(1, { path: `/${path}` })
    const again = await server.publishing.redeliver({ ...id, deliveryId: eventId }, {})
    const [, second] = await receiver.waitFor(2, { path: `/${path}` })
    expect(second?.body.equals(first?.body ?? Buffer.alloc(0))).toBe(true)
    expect(second?.headers['webhook-id']).toBe(again.eventId)
    expect(again.eventId).not.toBe(eventId)
    expect(await line(id, again.eventId)).toMatchObject({ eventType: TYPE, redeliveryOf: eventId })
  })

  test("of another endpoint's delivery, or to a disabled endpoint, is refused", async () => {
    const path = 'refused'
    const id = await make(path, { eventTypes: [TYPE] })
    const stranger = await make('stranger')
    const { eventId } = await publish('{}')
    await receiver.waitFor(1, { path: `/${path}` })
    const redeliver = (endpoint: typeof id) =>
      server.publishing.redeliver({ ...endpoint, deliveryId: eventId }, {})
    expect((await refusalOf(redeliver(stranger))).code).toBe('not_found')
    await server.endpoints.change(id, { status: 'disabled' }, {})
    expect((await refusalOf(redeliver(id))).code).toBe('endpoint_disabled')
  })
})
