import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../src/apis/webhook-endpoint.ts'
import { createRandom } from '../../src/lib/time.ts'
import { OpenDeliveryIndex } from '../../src/server/delivery-index/delivery-index.ts'
import type { DeliveryLine } from '../../src/server/delivery-resource.ts'
import type { EndpointIdentity } from '../../src/webhooks/endpoints/directory.ts'
import { KubernetesLogStore } from '../../src/webhooks/log/kubernetes-store.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { NO_RUNTIME_METRICS } from '../support/no-metrics.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { scopedApi } from '../support/scoped-api.ts'
import { until } from '../support/until.ts'

const EVENTS = 7

let davit: TestDavit
let receiver: Receiver
let index: OpenDeliveryIndex

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('delivery-index')
  index = openIndex()
  await index.ready
})

afterAll(async () => {
  await index?.stop()
  await davit?.stop()
  await receiver?.close()
})

function openIndex(): OpenDeliveryIndex {
  const silent = () => undefined
  const { clock, namespace } = davit
  const needs = {
    api: scopedApi(davit.api, [davit.organization]),
    clock,
    random: createRandom(),
    log: { info: silent, warn: silent, error: silent },
    metrics: NO_RUNTIME_METRICS,
  }
  const store = new KubernetesLogStore({ ...needs, resources: davit.api, namespace, watching: needs })
  return new OpenDeliveryIndex({ needs, store, maxEntries: 10_000 }).start()
}

function logged({ metadata }: WebhookEndpoint): EndpointIdentity {
  return { namespace: metadata.namespace ?? '', name: metadata.name, uid: metadata.uid }
}

async function all(of: EndpointIdentity, from = index): Promise<DeliveryLine[]> {
  const found: DeliveryLine[] = []
  let after: string | undefined
  do {
    const page = await from.list([of], { limit: 3, after })
    found.push(...page.deliveries)
    after = page.next
  } while (after !== undefined)
  return found
}

/** Resolves with the whole log once it is as wanted. */
async function allWhen(
  of: EndpointIdentity,
  wanted: (lines: DeliveryLine[]) => boolean,
): Promise<DeliveryLine[]> {
  let last: DeliveryLine[] = []
  return await until(
    async () => {
      last = await all(of)
      return wanted(last) ? last : undefined
    },
    () => `the log is not as wanted: ${JSON.stringify(last)}`,
  )
}

function areAll(status: DeliveryLine['status'], count: number): (lines: DeliveryLine[]) => boolean {
  return (lines) => lines.length === count && lines.every((line) => line.status === status)
}

describe('the log of an endpoint', () => {
  /** It alone gets events of its type. */
  async function endpoint(
    name: string,
    spec: Record<string, unknown> = {},
  ): Promise<{ of: EndpointIdentity; type: string }> {
    const type = await ownEventType(davit)
    const url = `${receiver.url}/${name}`
    const made = await davit.endpoint(name, { url, eventTypes: [type], ...spec })
    return { of: logged(made.endpoint), type }
  }

  test('has every delivery once, newest first, with its attempt', async () => {
    const { of, type } = await endpoint('plain')
    const events = []
    for (let number = 0; number < EVENTS; number += 1) events.push(await davit.publish(type, { number }))
    const lines = await allWhen(of, areAll('succeeded', EVENTS))
    expect(new Set(lines.map(({ deliveryId }) => deliveryId))).toEqual(
      new Set(events.map(({ status }) => status?.eventId)),
    )
    expect(lines).toEqual(lines.toSorted((a, b) => (a.deliveryId < b.deliveryId ? -1 : 1)))
    for (const line of lines) {
      expect(line).toMatchObject({ eventType: type, attemptCount: 1, completedAt: expect.any(String) })
      const detail = await index.read(of, line.deliveryId)
      expect(detail).toMatchObject({ status: 'succeeded', attempts: [{ code: 200 }] })
    }
  })

  test('has a failure with each of its attempts, and when the next one comes', async () => {
    receiver.answer('/failing', { status: 503, body: 'overloaded' }, { status: 200 })
    const { of, type } = await endpoint('failing')
    const event = await davit.publish(type, {})
    const id = event.status?.eventId ?? ''
    const [waiting] = await allWhen(of, areAll('retrying', 1))
    expect(waiting).toMatchObject({ deliveryId: id, attemptCount: 1, nextAttemptAt: expect.any(String) })
    expect(await index.read(of, id)).toMatchObject({ attempts: [{ code: 503, response: 'overloaded' }] })
    // The object exists by now.
    await davit.deliveriesWhen(of.name, ([delivery]) => delivery?.status?.state === 'retrying')
    davit.clock.jump(31_000)
    await allWhen(of, areAll('succeeded', 1))
    expect(await index.read(of, id)).toMatchObject({
      attemptCount: 2,
      attempts: [{ code: 503 }, { code: 200 }],
    })
  })

  test('has a redelivery beside the delivery that it repeats', async () => {
    const { of, type } = await endpoint('again')
    const event = await davit.publish(type, { number: 1 })
    const id = event.status?.eventId ?? ''
    await allWhen(of, areAll('succeeded', 1))
    await davit.annotate(of.name, { 'davit.dev/redeliver-requested': `${id}@${davit.time()}` })
    const lines = await allWhen(of, areAll('succeeded', 2))
    const again = lines.find(({ deliveryId }) => deliveryId !== id)
    expect(again).toMatchObject({ redeliveryOf: id, eventType: type })
    expect(index.segmentOf(of, id)).toMatch(/^[0-9a-z]{26}$/)
  })

  test('has what an endpoint that does not answer holds up', async () => {
    receiver.answer('/hanging', 'hang')
    const { of, type } = await endpoint('hanging', { ordered: true })
    for (let number = 0; number < 3; number += 1) await davit.publish(type, { number })
    await allWhen(of, areAll('pending', 3))
    // An object is created for a delivery without an outcome after two seconds, and nothing is listed twice.
    davit.clock.jump(3000)
    await davit.deliveriesWhen(of.name, (deliveries) => deliveries.length === 3)
    expect(await allWhen(of, areAll('pending', 3))).toHaveLength(3)
    expect([...index.unfinished()].find(({ uid }) => uid === of.uid)?.size).toBe(3)
  })

  test('is complete on a walk through it while deliveries come', async () => {
    const { of, type } = await endpoint('busy')
    for (let number = 0; number < EVENTS; number += 1) await davit.publishOnly(type, { number })
    const before = await allWhen(of, (lines) => lines.length === EVENTS)
    const seen: string[] = []
    let after: string | undefined
    do {
      await davit.publish(type, {})
      const page = await index.list([of], { limit: 2, after })
      seen.push(...page.deliveries.map(({ deliveryId }) => deliveryId))
      after = page.next
    } while (after !== undefined)
    expect(new Set(seen).size).toBe(seen.length)
    expect(seen).toEqual(expect.arrayContaining(before.map(({ deliveryId }) => deliveryId)))
  })

  test('is one list with that of other endpoints, and its events are listed with the states of both', async () => {
    const [one, other] = await Promise.all([endpoint('shared-a'), endpoint('shared-b')])
    await davit.endpoint('shared-c', { url: `${receiver.url}/shared-c`, eventTypes: [one.type] })
    const third = logged(await davit.endpointWhen('shared-c', () => true))
    const ids = []
    for (const { type } of [one, other, one]) ids.push((await davit.publish(type, {})).status?.eventId)
    const ofs = [one.of, other.of, third]
    const lines = await until(
      async () => {
        const { deliveries } = await index.list(ofs, { limit: 10 })
        return areAll('succeeded', 5)(deliveries) ? deliveries : undefined
      },
      () => 'not everything was delivered',
    )
    const [first, second, last] = ids
    expect(lines.map(({ deliveryId }) => deliveryId)).toEqual([first, first, second, last, last].sort())
    expect(new Set(lines.map(({ deliveryId, endpointId }) => `${deliveryId} ${endpointId}`)).size).toBe(5)
    const { events } = await index.events(davit.organization, { limit: 10, type: one.type })
    const both = { deliveries: 2, statuses: { succeeded: 2, pending: 0 } }
    expect(events).toMatchObject([first, last].sort().map((eventId) => ({ eventId, ...both })))
  })

  test('is the same for another replica, and after a restart', async () => {
    const ofs = await Promise.all(
      ['plain', 'failing', 'again', 'busy'].map(async (name) =>
        logged(await davit.endpointWhen(name, () => true)),
      ),
    )
    for (const of of ofs) {
      const lines = await allWhen(of, (held) => held.every(({ status }) => status === 'succeeded'))
      // An object is made behind the outcome, and gets its status with a second write.
      await davit.deliveriesWhen(of.name, (shown) => {
        const ended = shown.filter(({ status }) => status?.state === 'succeeded')
        return ended.length === lines.length
      })
    }
    const other = openIndex()
    try {
      await other.ready
      for (const of of ofs) {
        const wanted = await all(of, other)
        expect(wanted.length).toBeGreaterThan(0)
        await allWhen(of, (lines) => JSON.stringify(lines) === JSON.stringify(wanted))
      }
    } finally {
      await other.stop()
    }
  })
})

test('a line goes with what it was read from: its segment, or its object', async () => {
  const failing = logged(await davit.endpointWhen('failing', () => true))
  const again = logged(await davit.endpointWhen('again', () => true))
  const [failed] = await allWhen(failing, areAll('succeeded', 1))
  for (const { name } of [failing, again])
    for (const { metadata } of await davit.deliveriesWhen(name, (shown) => shown.length > 0))
      await davit.api.delete(webhookDeliveries, { namespace: davit.organization, name: metadata.name })
  // The log has the end of each.
  expect(await all(again)).toHaveLength(2)
  // The log alone has the event of a delivery whose end was in its object.
  await allWhen(failing, (lines) => lines.length === 0)
  const found = async () => [
    index.segmentOf(failing, failed?.deliveryId ?? ''),
    (await index.event(failing.namespace, failed?.deliveryId ?? ''))?.segment,
  ]
  const [segment] = await found()
  expect(segment).toMatch(/^[0-9a-z]{26}$/)
  expect(await found()).toEqual([segment, segment])
  const page = await davit.api.list(deliverySegments, { namespace: davit.namespace })
  for (const { metadata } of page.items)
    await davit.api.delete(deliverySegments, { namespace: davit.namespace, name: metadata.name })
  await allWhen(again, (lines) => lines.length === 0)
  await until(
    async () => (await found()).every((name) => name === undefined) || undefined,
    () => 'the event is still found',
  )
  // What has an object stays as long as that.
  const plain = logged(await davit.endpointWhen('plain', () => true))
  const [kept] = await allWhen(plain, areAll('succeeded', EVENTS))
  expect(await index.read(plain, kept?.deliveryId ?? '')).toMatchObject({ attempts: [{ code: 200 }] })
})
