/** Publishing with kubectl: which events are accepted or rejected and why, and what happens to the objects. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { namespaces } from '../../src/apis/core-kinds.ts'
import { eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { kubectl } from '../support/control-plane.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let davit: TestDavit
let receiver: Receiver
let odd = 0

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('webhook-event', { wrapApi: withShortPages })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** Lists of events come in many pages, in the order of their names. */
function withShortPages(api: KubernetesClient): KubernetesClient {
  return {
    ...api,
    list: (type, query, from) =>
      api.list(type, type.plural === webhookEvents.plural ? { ...query, limit: 4 } : query, from),
  }
}

async function makeEvent(name: string, spec: Record<string, unknown>): Promise<void> {
  const metadata = { name, namespace: davit.organization }
  await davit.api.create(webhookEvents, { apiVersion: API_VERSION, kind: 'WebhookEvent', metadata, spec })
}

function ready(status: string, reason: string, message?: unknown) {
  return expect.objectContaining({ type: 'Ready', status, reason, ...(message ? { message } : {}) })
}

describe('what is refused says why, is sent to nobody, and stays refused', () => {
  test('a type that does not exist', async () => {
    const event = await davit.publish('no.such-type', {})
    expect(event.status).toMatchObject({
      state: 'refused',
      observedGeneration: 1,
      finishedAt: expect.any(String),
      conditions: [
        ready(
          'False',
          'UnknownType',
          expect.stringContaining('EventType no.such-type does not exist. To list'),
        ),
        expect.objectContaining({ type: 'Stalled', status: 'True', reason: 'UnknownType' }),
      ],
    })
    expect(event.status?.eventId).toBeUndefined()
  })

  test.for(['webhook.ping', 'webhook.endpoint.disabled', 'webhook.of-mine'])(
    'a type of Davit itself: %s',
    async (type) => {
      await davit.endpoint(`of-${type.replaceAll('.', '-')}`, {
        url: `${receiver.url}/reserved`,
        eventTypes: [type],
      })
      const event = await davit.publish(type, {})
      expect(event.status).toMatchObject({
        state: 'refused',
        conditions: [
          ready('False', 'Reserved', 'The prefix "webhook." is reserved for events that Davit publishes.'),
          expect.anything(),
        ],
      })
      await passBy(davit, receiver)
      expect(receiver.received('/reserved')).toHaveLength(0)
    },
  )

  test('data that does not fit the schema of the type, with a pointer to each place', async () => {
    const type = await ownEventType(davit, {
      type: 'object',
      properties: {
        at: { type: 'object', properties: { line: { type: 'integer' } } },
        names: { items: { type: 'string' } },
      },
      required: ['kind'],
    })
    const event = await davit.publish(type, { at: { line: 'seven' }, names: ['a', 2] })
    expect(event.status?.state).toBe('refused')
    const message = event.status?.conditions?.[0]?.message ?? ''
    expect(event.status?.conditions?.[0]).toMatchObject({ type: 'Ready', reason: 'SchemaMismatch' })
    for (const pointer of ['/at/line ', '/names/1 ', 'kind']) expect(message).toContain(pointer)
    const good = await davit.publish(type, { kind: 'x', at: { line: 7 }, names: ['a'], more: true })
    expect(good.status?.state).toBe('dispatched')
  })

  test.for([
    { text: '{"a":1,}', reason: 'NotJson', place: 'line 1, column 8' },
    { text: '{"a":1,\n"a":2}', reason: 'InvalidData', place: 'line 2, column 1' },
    { text: '['.repeat(500) + ']'.repeat(500), reason: 'InvalidData', place: 'line 1, column 100' },
  ])('text that is no JSON, or has a member twice, with the place', async ({ text, reason, place }) => {
    const event = await davit.publish(await ownEventType(davit), text)
    expect(event.status).toMatchObject({
      state: 'refused',
      conditions: [ready('False', reason, expect.stringContaining(place)), expect.anything()],
    })
  })

  test.for([
    { spec: {}, reason: 'DataRequired' },
    { spec: { data: null }, reason: 'DataRequired' },
    { spec: { data: {}, dataText: '{}' }, reason: 'DataAmbiguous' },
    { spec: { data: JSON.parse('['.repeat(500) + ']'.repeat(500)) }, reason: 'InvalidData' },
  ])('data that is missing, there twice, or too deep: $reason', async ({ spec, reason }) => {
    odd += 1
    const name = `odd-${odd}`
    await makeEvent(name, { type: await ownEventType(davit), ...spec })
    const event = await davit.eventWhen(name, ({ status }) => status?.state === 'refused')
    expect(event.status?.conditions?.[0]).toMatchObject({ type: 'Ready', reason })
  })

  test('data that is too deep for a recursive reader, which holds up no other event', async () => {
    const type = await ownEventType(davit)
    const object = {
      apiVersion: API_VERSION,
      kind: 'WebhookEvent',
      metadata: { name: 'abyss', namespace: davit.organization },
      spec: { type, data: 'DEEP' },
    }
    // No client in this process could write it.
    const deep = '['.repeat(8000) + ']'.repeat(8000)
    await kubectl(['create', '-f', '-'], JSON.stringify(object).replace('"DEEP"', deep))
    const event = await davit.eventWhen('abyss', ({ status }) => status?.state === 'refused')
    expect(event.status?.conditions?.[0]).toMatchObject({ type: 'Ready', reason: 'InvalidData' })
    expect((await davit.publish(type, {})).status?.state).toBe('dispatched')
  })

  test('a type whose schema cannot be used, which says so itself', async () => {
    const type = await ownEventType(davit, { $schema: 'http://json-schema.org/draft-07/schema#' })
    const event = await davit.publish(type, {})
    const message = expect.stringContaining('$schema must be https://json-schema.org/draft/2020-12/schema')
    expect(event.status?.conditions?.[0]).toMatchObject({ type: 'Ready', reason: 'SchemaInvalid', message })
    const said = await until(
      async () => {
        const { status } = await davit.api.get(eventTypes, { name: type })
        return (status as { conditions?: object[] } | undefined)?.conditions
      },
      () => 'the type has no condition',
    )
    expect(said).toMatchObject([
      { type: 'Ready', status: 'False', reason: 'SchemaInvalid', message },
      { type: 'Stalled', status: 'True', reason: 'SchemaInvalid' },
    ])
  })

  test('more than 256 KiB of JSON, counted in bytes', async () => {
    const type = await ownEventType(davit)
    const event = await davit.publish(type, JSON.stringify('€'.repeat(90_000)))
    expect(event.status).toMatchObject({
      state: 'refused',
      conditions: [ready('False', 'TooLarge'), expect.anything()],
    })
  })

  test('an event of a namespace that is no organization, and only while it is none', async () => {
    const type = await ownEventType(davit)
    await davit.endpoint('of-nobody', { url: `${receiver.url}/of-nobody`, eventTypes: [type] })
    const label = (value: string | null) =>
      davit.api.patch(
        namespaces,
        { name: davit.organization },
        { metadata: { labels: { 'davit.dev/organization': value } } },
      )
    await label(null)
    await davit.endpointWhen(
      'of-nobody',
      ({ status }) =>
        status?.conditions?.some(({ type, reason }) => type === 'Ready' && reason === 'NotAnOrganization') ===
        true,
    )
    const event = await davit.publish(type, { n: 1 })
    expect(event.status).toMatchObject({
      state: 'refused',
      conditions: [
        ready('False', 'NotAnOrganization', expect.stringContaining('davit.dev/organization=true')),
        expect.anything(),
      ],
    })
    await label('true')
    await davit.endpointWhen(
      'of-nobody',
      ({ status }) =>
        status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true,
    )
    await davit.publish(type, { n: 2 })
    const [request] = await receiver.waitFor(1, { path: '/of-nobody' })
    expect(request?.body.toString()).toContain('"n":2')
  })
})

describe('what is accepted', () => {
  test('has the number of its deliveries and their id, and is dispatched when the last has come to its end', async () => {
    const type = await ownEventType(davit)
    receiver.answer('/slow-end', { status: 500 }, {})
    await davit.endpoint('quick-end', { url: `${receiver.url}/quick-end`, eventTypes: [type] })
    await davit.endpoint('slow-end', { url: `${receiver.url}/slow-end`, eventTypes: [type] })
    const event = await davit.publish(type, {})
    expect(event.status).toMatchObject({
      state: 'accepted',
      deliveries: 2,
      eventId: expect.stringMatching(/^msg_[0-9a-z]{26}$/),
      conditions: [ready('True', 'Accepted')],
    })
    expect(event.status?.finishedAt).toBeUndefined()
    await davit.deliveriesWhen('quick-end', ([delivery]) => delivery?.status?.state === 'succeeded')
    await driveToEnd(davit, 'slow-end')
    const over = await davit.eventWhen(event.metadata.name, ({ status }) => status?.state === 'dispatched')
    expect(over.status).toMatchObject({ eventId: event.status?.eventId, finishedAt: expect.any(String) })
  })

  test('but nobody subscribes to is dispatched at once, and says so', async () => {
    const event = await davit.publish(await ownEventType(davit), {})
    expect(event.status).toMatchObject({
      state: 'dispatched',
      deliveries: 0,
      finishedAt: expect.any(String),
      conditions: [ready('True', 'NoSubscribers')],
    })
  })

  test('arrives in the order of its creation', async () => {
    const type = await ownEventType(davit)
    await davit.endpoint('in-order', { url: `${receiver.url}/in-order`, eventTypes: [type], ordered: true })
    // Names in another order than creation.
    for (let n = 0; n < 40; n += 1) await makeEvent(`in-order-${(n * 17) % 40}-${n}`, { type, data: { n } })
    const requests = await receiver.waitFor(40, { path: '/in-order' })
    const numbers = requests.map(
      ({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n,
    )
    expect(numbers).toEqual(Array.from({ length: 40 }, (_, n) => n))
  })

  test('arrives in the order of its creation although it was made while no controller ran', async () => {
    const type = await ownEventType(davit)
    await davit.endpoint('made-before', {
      url: `${receiver.url}/made-before`,
      eventTypes: [type],
      ordered: true,
    })
    await davit.controller.stop()
    for (let n = 0; n < 20; n += 1) await makeEvent(`made-before-${99 - n}`, { type, data: { n } })
    await davit.startController()
    const requests = await receiver.waitFor(20, { path: '/made-before' })
    const numbers = requests.map(
      ({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n,
    )
    expect(numbers).toEqual(Array.from({ length: 20 }, (_, n) => n))
  })

  test('once is published once, although the controller starts anew', async () => {
    const type = await ownEventType(davit)
    await davit.endpoint('once', { url: `${receiver.url}/once`, eventTypes: [type] })
    await davit.publish(type, {})
    await receiver.waitFor(1, { path: '/once' })
    await davit.restart()
    await passBy(davit, receiver)
    expect(receiver.received('/once')).toHaveLength(1)
  })

  test('is published although its object is deleted right after', async () => {
    const type = await ownEventType(davit)
    receiver.answer('/deleted-event', { status: 500 }, {})
    await davit.endpoint('deleted-event', { url: `${receiver.url}/deleted-event`, eventTypes: [type] })
    const event = await davit.publish(type, {})
    await davit.api.delete(webhookEvents, event.metadata)
    const [ended] = await driveToEnd(davit, 'deleted-event')
    expect(ended?.status?.state).toBe('succeeded')
  })
})

describe('the body', () => {
  test('has type, time of acceptance and data; `dataText` to the digit, `data` as the API server keeps it', async () => {
    const type = await ownEventType(davit)
    await davit.endpoint('body', { url: `${receiver.url}/body`, eventTypes: [type], ordered: true })
    await makeEvent('body-text', { type, dataText: ' {"b":9007199254740993, "a":1.0,"\\u00e9":"é"} ' })
    await makeEvent('body-data', { type, data: { b: 1, a: ['x', 1.5, true, null] } })
    await makeEvent('body-null', { type, dataText: 'null' })
    await makeEvent('body-zero', { type, data: 0 })
    const bodies = (await receiver.waitFor(4, { path: '/body' })).map(({ body }) => body.toString())
    const head = `\\{"type":"${type}","timestamp":"(\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z)","data":`
    expect(bodies[0]).toMatch(new RegExp(`^${head}\\{"b":9007199254740993, "a":1\\.0,"\\\\u00e9":"é"\\}\\}$`))
    expect(JSON.parse(bodies[1] ?? '')).toMatchObject({ data: { a: ['x', 1.5, true, null], b: 1 } })
    expect(bodies[2]).toMatch(new RegExp(`^${head}null\\}$`))
    expect(bodies[3]).toMatch(new RegExp(`^${head}0\\}$`))
    const at = Date.parse(new RegExp(head).exec(bodies[0] ?? '')?.[1] ?? '')
    expect(Math.abs(davit.clock.now() - at)).toBeLessThan(15_000)
  })
})
