/** Where objects cannot be made: a quota of the organization, one of the operator, a namespace that is ending. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { namespaces } from '../../src/apis/core-kinds.ts'
import { deliverySegmentKind, deliverySegments } from '../../src/apis/delivery-segment.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import {
  decodeOutcomeRecords,
  outcomeSegmentKind,
  outcomeSegments,
  readOutcomeSegment,
} from '../../src/apis/outcome-segment.ts'
import { webhookDeliveries, webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { type WebhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import type { RawObject } from '../../src/kube/client.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { forbidMore, type ObjectQuota } from '../support/object-quota.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const MINUTE = 60_000
const MEMBER = { memberId: 'm1', email: 'a@example.com', role: 'viewer' }

function reasonOf({ status }: WebhookEndpoint, type: string): string | undefined {
  return status?.conditions?.find((condition) => condition.type === type)?.reason
}

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('quota')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** All that the log holds has come to its end. */
async function nothingLeft(): Promise<void> {
  await until(
    async () => {
      const { engine } = davit.controller.webhooks
      davit.clock.jump(200)
      return (engine.counters.total === 0 && engine.ctx.segments.size === 0) || undefined
    },
    () => `left: ${JSON.stringify(davit.controller.webhooks.engine.stats())}`,
  )
}

/** Reasons of the records that end a delivery without an object. */
async function cancelReasons(): Promise<string[]> {
  const { items } = await davit.api.list(outcomeSegments, { namespace: davit.namespace, limit: 500 })
  return items
    .flatMap((raw) => decodeOutcomeRecords(readOutcomeSegment(raw).spec))
    .flatMap((record) => (record.kind === 'canceled' ? [record.reason] : []))
}

/** Jumps in steps until the receiver has so many requests of the path. */
async function driveToRequest(path: string, count: number, stepMs: number): Promise<void> {
  await until(
    async () => {
      if (receiver.received(path).length >= count) return true
      davit.clock.jump(stepMs)
      return undefined
    },
    () => `${receiver.received(path).length} of ${count} requests came`,
  )
}

describe('no delivery object may be made in the organization', () => {
  let quota: ObjectQuota
  const probe = (): RawObject => ({
    apiVersion: API_VERSION,
    kind: webhookDeliveryKind.kind,
    metadata: { name: `${'0'.repeat(26)}-probeprb`, namespace: davit.organization },
    spec: {
      endpoint: 'nobody',
      endpointUid: 'nobody',
      deliveryId: `msg_${'0'.repeat(26)}`,
      eventType: 'environment.started',
      position: '1/0',
      payload: '{}',
      writtenAt: davit.time(),
    },
  })

  beforeAll(async () => {
    quota = await forbidMore(davit.api, webhookDeliveries, probe())
  })

  test('successes are delivered all the same, and an Event says what is not shown', async () => {
    await davit.endpoint('good', { url: `${receiver.url}/good`, eventTypes: ['environment.started'] })
    const event = await davit.publish('environment.started', { number: 1 })
    await receiver.waitFor(1, { path: '/good' })
    await nothingLeft()
    await davit.eventWhen(event.metadata.name, ({ status }) => status?.state === 'dispatched')
    expect(receiver.received('/good').length).toBe(1)
    expect(await davit.deliveries('good')).toEqual([])
    expect((await davit.eventSeen('good', 'CannotStoreDelivery')).message).toMatch(/exceeded quota/)
    const { status } = await davit.endpointWhen(
      'good',
      (one) => reasonOf(one, 'SuccessesShown') !== undefined,
    )
    expect(status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'SuccessesShown', status: 'False', reason: 'CannotStoreDelivery' }),
    )
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }))
  })

  test('a failure is repeated from the log on its schedule, and shown with all its attempts once that may be', async () => {
    receiver.answer('/late', { status: 503 }, { status: 503 }, { status: 200 })
    await davit.endpoint('late', { url: `${receiver.url}/late`, eventTypes: ['environment.stopped'] })
    await davit.publish('environment.stopped', { number: 1 })
    await driveToRequest('/late', 2, 5000)
    expect(await davit.deliveries('late')).toEqual([])
    await quota.lift()
    await driveToRequest('/late', 3, 20_000)
    const [ended] = await davit.deliveriesWhen('late', ([one]) => one?.status?.state === 'succeeded')
    expect(ended?.status?.attempts?.map(({ code }) => code)).toEqual([503, 503, 200])
    expect(new Set(receiver.received('/late').map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    quota = await forbidMore(davit.api, webhookDeliveries, probe())
  })

  test('what fails or is held goes on for hours, its endpoints say so, and others are not affected', async () => {
    for (const name of ['failing', 'held']) {
      receiver.answer(`/${name}`, { status: 500 })
      const spec = { url: `${receiver.url}/${name}`, eventTypes: ['member.joined'], ordered: name === 'held' }
      await davit.endpoint(name, spec)
    }
    await davit.publish('member.joined', MEMBER)
    await receiver.waitFor(1, { path: '/held' })
    await driveToRequest('/failing', 2, 5000)
    await davit.patchSpec('held', { state: 'disabled' })
    await davit.restart()
    for (const name of ['failing', 'held']) {
      const { status } = await davit.endpointWhen(name, (one) => reasonOf(one, 'Stalled') !== undefined)
      const stalled = status?.conditions?.find(({ type }) => type === 'Stalled')
      expect(stalled?.reason).toBe('CannotStoreDelivery')
      expect(stalled?.message).toMatch(
        /exceeded quota: .* Meanwhile, Davit keeps retrying both the delivery and the creation/,
      )
    }
    await driveToRequest('/failing', 6, 5 * MINUTE)
    expect(await cancelReasons()).toEqual([])
    const before = receiver.received('/good').length
    await davit.publish('environment.started', { number: 2 })
    await receiver.waitFor(before + 1, { path: '/good' })
    await quota.lift()
    for (const name of ['failing', 'held'])
      await until(
        async () => {
          davit.clock.jump(20_000)
          return (await davit.deliveries(name)).length === 1 || undefined
        },
        () => `the delivery to ${name} has no object`,
      )
    const [shown] = await davit.deliveries('failing')
    expect(shown?.status?.attempts?.length).toBeGreaterThanOrEqual(6)
    for (const name of ['failing', 'held'])
      await until(
        async () => {
          davit.clock.jump(20_000)
          const endpoint = davit.controller.webhooks.directory.get(davit.organization, name)?.endpoint
          return (endpoint && reasonOf(endpoint, 'Stalled') === undefined) || undefined
        },
        () => `${name} is still said to be stalled`,
      )
    for (const name of ['failing', 'held']) receiver.answer(`/${name}`, { status: 200 })
    const sent = receiver.received('/held').length
    await davit.patchSpec('held', { state: 'enabled' })
    await driveToRequest('/held', sent + 1, MINUTE)
    await driveToRequest('/failing', 7, 10 * MINUTE)
    await nothingLeft()
  })

  test('what the log has kept for a day is canceled', async () => {
    quota = await forbidMore(davit.api, webhookDeliveries, probe())
    receiver.answer('/held', { status: 500 })
    const event = await davit.publish('member.joined', MEMBER)
    await davit.endpointWhen('held', (one) => reasonOf(one, 'Stalled') !== undefined)
    await davit.patchSpec('held', { state: 'disabled' })
    await davit.endpointWhen('held', ({ status }) => status?.state === 'disabled')
    davit.clock.jump(23 * 60 * MINUTE)
    expect(await cancelReasons()).toEqual([])
    davit.clock.jump(2 * 60 * MINUTE)
    await nothingLeft()
    await davit.eventWhen(event.metadata.name, ({ status }) => status?.state === 'dispatched')
    expect(await cancelReasons()).toEqual(['CannotStore'])
    await quota.lift()
  })
})

describe('the operator may make no segments', () => {
  const segment = (kind: string, spec: object): RawObject => ({
    apiVersion: API_VERSION,
    kind,
    metadata: { name: '7'.repeat(26), namespace: davit.namespace },
    spec: { writtenAt: davit.clock.now(), writer: 'probe', ...spec },
  })

  test('publishing waits and loses nothing', async () => {
    const probe = segment(deliverySegmentKind.kind, { events: ['-'.repeat(40)], deliveries: '' })
    const quota = await forbidMore(davit.api, deliverySegments, probe)
    const before = receiver.received('/good').length
    const names = []
    for (let number = 10; number < 14; number += 1)
      names.push(await davit.publishOnly('environment.started', { number }))
    await until(
      async () => davit.logLines.find((line) => line.includes('reconcile_failed') && line.includes('quota')),
      () => 'nothing was refused',
    )
    expect(receiver.received('/good').length).toBe(before)
    await quota.lift()
    await driveToRequest('/good', before + 4, 1000)
    for (const name of names) await davit.eventWhen(name, ({ status }) => status?.state !== undefined)
    await nothingLeft()
    expect(receiver.received('/good').length).toBe(before + 4)
  })

  test('nothing new is sent while outcomes cannot be stored, readiness says so, and all goes on afterwards', async () => {
    const probe = segment(outcomeSegmentKind.kind, { lowWater: '0', records: '1/0 moved' })
    const quota = await forbidMore(davit.api, outcomeSegments, probe)
    const before = receiver.received('/good').length
    await davit.publish('environment.started', { number: 20 })
    await receiver.waitFor(before + 1, { path: '/good' })
    await until(
      async () =>
        davit.controller.webhooks.outcomes.waiting() > 0 ||
        davit.controller.webhooks.engine.stats().settling > 0 ||
        undefined,
      () => 'no outcome waits',
    )
    davit.clock.jump(5001)
    expect(davit.controller.problems()).toEqual(['failed to store delivery outcomes'])
    const held = await davit.publish('environment.started', { number: 21 })
    await until(
      async () => davit.controller.webhooks.engine.counters.total === 2 || undefined,
      () => 'the log did not show it',
    )
    expect(receiver.received('/good').length).toBe(before + 1)
    await quota.lift()
    await receiver.waitFor(before + 2, { path: '/good' })
    await nothingLeft()
    await davit.eventWhen(held.metadata.name, ({ status }) => status?.state === 'dispatched')
    expect(receiver.received('/good').length).toBe(before + 2)
    expect(davit.controller.problems()).toEqual([])
  })
})

describe('the namespace is ending', () => {
  test('what has no object is canceled, what has one ends with its endpoint, and nothing is sent any more', async () => {
    receiver.answer('/ending', { status: 503 })
    await davit.endpoint('ending', {
      url: `${receiver.url}/ending`,
      ordered: true,
      eventTypes: ['billing.updated'],
    })
    for (let number = 0; number < 3; number += 1) await davit.publish('billing.updated', { number })
    await davit.deliveriesWhen('ending', ([first]) => first?.status?.state === 'retrying')
    // Two wait behind the first, in the log alone.
    await davit.api.delete(namespaces, { name: davit.organization })
    davit.clock.jump(3000)
    await until(
      async () => davit.controller.webhooks.engine.ctx.segments.size === 0 || undefined,
      () => 'entries of the log are open',
    )
    expect((await davit.deliveries('ending')).length).toBe(1)
    expect((await cancelReasons()).filter((reason) => reason === 'NamespaceGone').length).toBe(2)
    // As the namespace controller goes on.
    const ref = { namespace: davit.organization, name: 'ending' }
    await davit.api.delete(webhookEndpoints, ref)
    await nothingLeft()
    const sent = receiver.received('/ending').length
    davit.clock.jump(HOURS_10)
    for (const { metadata } of (await davit.api.list(webhookEvents, { namespace: davit.organization })).items)
      await davit.api.delete(webhookEvents, metadata)
    await until(
      async () => davit.controller.webhooks.engine.stats().inFlight === 0 || undefined,
      () => 'attempts are under way',
    )
    expect(receiver.received('/ending').length).toBe(sent)
    expect(await davit.deliveries('ending')).toEqual([])
  })
})

const HOURS_10 = 10 * 60 * MINUTE
