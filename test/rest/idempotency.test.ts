/** Idempotency-Keys across replicas, restarts and crashes of the REST server (settled, "Idempotency"). */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { secrets } from '../../src/apis/core-kinds.ts'
import { deliverySegments, readDeliverySegment } from '../../src/apis/delivery-segment.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { installationKey } from '../../src/credentials/accounts/identity.ts'
import { createRandom } from '../../src/lib/time.ts'
import type { EndpointDraft } from '../../src/server/endpoint-resource.ts'
import { preserveKeys } from '../../src/webhooks/log/retention-deleter.ts'
import { codeOf } from '../support/code-of.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { calling } from '../support/faulty-api.ts'
import { type LiveServer, startLiveServer } from '../support/live-server.ts'
import { logOn } from '../support/log-on.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'
const DAY_MS = 24 * 3_600_000

let davit: TestDavit
let server: LiveServer
let other: LiveServer
let receiver: Receiver
let keys = 0

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('rest-idempotency')
  server = await startLiveServer(davit)
  other = await startLiveServer(davit)
})

afterAll(async () => {
  await Promise.all([server?.stop(), other?.stop()])
  await davit?.stop()
  await receiver?.close()
})

function newKey(): { idempotencyKey: string } {
  keys += 1
  return { idempotencyKey: `order-${keys}` }
}

function draft(path: string, more: Partial<EndpointDraft> = {}): EndpointDraft {
  return { url: `${receiver.url}/${path}`, eventTypes: ['member.joined'], ...more }
}

async function make(path: string, more: Partial<EndpointDraft> = {}) {
  const { endpoint } = await server.endpoints.create(davit.organization, draft(path, more), {})
  return { organization: davit.organization, endpointId: endpoint.endpointId }
}

function publish(at: LiveServer, how: { idempotencyKey: string }, dataText = '{}') {
  return at.publishing.publish(davit.organization, { type: TYPE, dataText }, how)
}

/** All that the log holds has come to its end. */
async function nothingLeft(): Promise<void> {
  await until(
    async () => {
      const { engine } = davit.controller.webhooks
      return (engine.counters.total === 0 && engine.ctx.segments.size === 0) || undefined
    },
    () => `left: ${JSON.stringify(davit.controller.webhooks.engine.stats())}`,
  )
}

test('the key of the installation is made once, however many ask for it at a time', async () => {
  const options = { resources: davit.api, namespace: davit.namespace, random: createRandom() }
  const asked = await Promise.all(Array.from({ length: 5 }, () => installationKey(options)))
  expect(new Set(asked.map((key) => Buffer.from(key).toString('hex'))).size).toBe(1)
  expect(asked[0]?.length).toBe(32)
})

describe('an event under one key', () => {
  test('is delivered once, whichever replica is asked how often, and each is answered the same', async () => {
    await make('once', { eventTypes: [TYPE] })
    const how = newKey()
    const asked = Array.from({ length: 12 }, (_, at) =>
      publish(at % 2 ? server : other, how, '{"environmentId":"a"}'),
    )
    const answers = await Promise.all(asked)
    answers.push(await publish(other, how, '{"environmentId":"a"}'))
    expect(new Set(answers.map(({ eventId, deliveries }) => `${eventId} ${deliveries}`)).size).toBe(1)
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
    await receiver.waitFor(1, { path: '/once' })
    await nothingLeft()
    expect(receiver.received('/once').map(({ headers }) => headers['webhook-id'])).toEqual([
      answers[0]?.eventId,
    ])
  })

  test('for another request is a conflict, at each replica', async () => {
    const how = newKey()
    await publish(server, how, '{"environmentId":"a"}')
    for (const replica of [server, other])
      expect(await codeOf(publish(replica, how, '{"environmentId":"b"}'))).toBe('idempotency_conflict')
  })

  test('that nobody subscribed to is answered the same, though somebody does by now', async () => {
    const how = newKey()
    const ask = (at: LiveServer) =>
      at.publishing.publish(davit.organization, { type: 'billing.updated', dataText: '{}' }, how)
    const first = await ask(server)
    expect(first.deliveries).toBe(0)
    await make('later', { eventTypes: ['billing.updated'] })
    expect(await ask(other)).toEqual({ ...first, replayed: true })
  })

  test('is known to a replica that starts later, and to the next process of the controller', async () => {
    await make('restart', { eventTypes: [TYPE] })
    const how = newKey()
    const first = await publish(server, how)
    await receiver.waitFor(1, { path: '/restart' })
    await davit.restart()
    const young = await startLiveServer(davit)
    expect(await publish(young, how)).toEqual({ ...first, replayed: true })
    await young.stop()
    await nothingLeft()
    expect(receiver.received('/restart')).toHaveLength(1)
  })

  test('is found by a repeat, if the process ended before it answered', async () => {
    await make('crash', { eventTypes: [TYPE] })
    const how = newKey()
    const mortal = await startLiveServer(davit)
    mortal.api.fail(calling('create', deliverySegments), 'dies after')
    void publish(mortal, how).catch(() => undefined)
    await mortal.api.died
    mortal.kill()
    await receiver.waitFor(1, { path: '/crash' })
    const repeat = await publish(other, how)
    expect(repeat.replayed).toBe(true)
    await nothingLeft()
    expect(receiver.received('/crash').map(({ headers }) => headers['webhook-id'])).toEqual([repeat.eventId])
  })

  test('stays known when its segment goes', async () => {
    const id = await make('kept')
    const how = newKey()
    const first = await server.publishing.ping(id, how)
    const name = server.index.segmentOf(
      { namespace: davit.organization, name: id.endpointId.slice(4), uid: uidOf(id.endpointId) },
      first.eventId,
    )
    if (name === undefined) throw new Error('the segment is not known')
    await receiver.waitFor(1, { path: '/kept' })
    await nothingLeft()
    const { eventLog } = davit.controller.webhooks
    await preserveKeys({ store: logOn(davit.api, davit), eventLog }, name, davit.clock.now())
    await davit.api.delete(deliverySegments, { namespace: davit.namespace, name })
    const young = await startLiveServer(davit)
    expect(await young.publishing.ping(id, how)).toEqual({ ...first, replayed: true })
    await young.stop()
  })
})

function uidOf(endpointId: string): string {
  return server.directory.get(davit.organization, endpointId.slice(4))?.endpoint.metadata.uid ?? ''
}

describe('pings and redeliveries under one key', () => {
  test('are made once, and answered the same when the endpoint is disabled by then', async () => {
    const id = await make('pinged', { eventTypes: [TYPE] })
    const [how, redelivered] = [newKey(), newKey()]
    const pings = await Promise.all([server, other].map(({ publishing }) => publishing.ping(id, how)))
    expect(new Set(pings.map(({ eventId }) => eventId)).size).toBe(1)
    const again = { ...id, deliveryId: pings[0]?.eventId ?? '' }
    const first = await server.publishing.redeliver(again, redelivered)
    await server.endpoints.change(id, { status: 'disabled' }, {})
    expect(await other.publishing.redeliver(again, redelivered)).toEqual({ ...first, replayed: true })
    expect(await codeOf(server.publishing.ping(id, newKey()))).toBe('endpoint_disabled')
  })

  test('for another endpoint are a conflict', async () => {
    const [one, two] = [await make('one'), await make('two')]
    const how = newKey()
    await server.publishing.ping(one, how)
    expect(await codeOf(other.publishing.ping(two, how))).toBe('idempotency_conflict')
  })
})

describe('an endpoint under one key', () => {
  test('is made once, its secret is in one answer, and every repeat has the rest', async () => {
    const how = newKey()
    const asked = [server, other, server, other].map(({ endpoints }) =>
      endpoints.create(davit.organization, draft('made'), how),
    )
    const answers = await Promise.all(asked)
    const firsts = answers.filter(({ replayed }) => !replayed)
    expect(firsts).toHaveLength(1)
    expect(answers.filter(({ secret }) => secret !== undefined)).toEqual(firsts)
    expect(new Set(answers.map(({ endpoint, etag }) => JSON.stringify([endpoint, etag]))).size).toBe(1)
    const { endpoints } = await server.endpoints.list(davit.organization, { limit: 200 })
    expect(endpoints.filter(({ url }) => url === `${receiver.url}/made`)).toHaveLength(1)
    const [{ endpoint: { endpointId } = { endpointId: '' }, secret = '' } = {}] = firsts
    await server.publishing.ping({ organization: davit.organization, endpointId }, {})
    const [request] = await receiver.waitFor(1, { path: '/made' })
    expect(request && signersOf(request, [secret])).toEqual([0])
  })

  test('is not made again when it has been changed or deleted since', async () => {
    const how = newKey()
    const first = await server.endpoints.create(davit.organization, draft('gone'), how)
    const id = { organization: davit.organization, endpointId: first.endpoint.endpointId }
    await server.endpoints.change(id, { ordered: true }, {})
    const changed = await other.endpoints.create(davit.organization, draft('gone'), how)
    expect(changed).toMatchObject({ endpoint: first.endpoint, replayed: true })
    expect(changed).not.toHaveProperty('secret')
    await server.endpoints.remove(id, {})
    const repeat = await other.endpoints.create(davit.organization, draft('gone'), how)
    expect(repeat).toEqual({ endpoint: first.endpoint, replayed: true })
    expect(await codeOf(server.endpoints.get(id))).toBe('not_found')
  })

  test.each([
    // A secret that the repeat creates first cannot have been seen before.
    { where: 'before its signing key', type: secrets, how: 'dies before' as const, isSeen: false },
    { where: 'between its signing key and itself', type: secrets, how: 'dies after' as const, isSeen: true },
    { where: 'after itself', type: webhookEndpoints, how: 'dies after' as const, isSeen: true },
  ])(
    'is finished by a repeat where the process ended $where',
    async ({ where, type, how: fault, isSeen }) => {
      const how = newKey()
      const path = where.replaceAll(' ', '-')
      const mortal = await startLiveServer(davit)
      mortal.api.fail(calling('create', type), fault)
      void mortal.endpoints.create(davit.organization, draft(path), how).catch(() => undefined)
      await mortal.api.died
      mortal.kill()
      davit.clock.jump(15_000)
      const repeat = await other.endpoints.create(davit.organization, draft(path), how)
      expect(repeat).toMatchObject({ replayed: isSeen, endpoint: { url: `${receiver.url}/${path}` } })
      expect(repeat.secret === undefined).toBe(isSeen)
      const id = { organization: davit.organization, endpointId: repeat.endpoint.endpointId }
      const roll = () => other.endpoints.roll(id, { expireOld: true }, {})
      const { secret = '' } = isSeen ? await roll() : repeat
      await other.publishing.ping(id, {})
      const [request] = await receiver.waitFor(1, { path: `/${path}` })
      expect(request && signersOf(request, [secret])).toEqual([0])
      const { endpoints } = await server.endpoints.list(davit.organization, { limit: 200 })
      expect(endpoints.filter(({ url }) => url === `${receiver.url}/${path}`)).toHaveLength(1)
    },
  )
})

test('a roll under one key makes one secret, shown once', async () => {
  const id = await make('rolled')
  const how = newKey()
  const roll = (at: LiveServer) => at.endpoints.roll(id, { expireOld: true }, how)
  const answers = await Promise.all([roll(server), roll(other), roll(server)])
  expect(answers.filter(({ secret }) => secret !== undefined)).toHaveLength(1)
  await server.endpoints.roll(id, { expireOld: true }, {})
  const before = receiver.received('/rolled').length
  expect(await roll(other)).toEqual({ overlapSeconds: 0, replayed: true })
  await server.publishing.ping(id, {})
  const request = (await receiver.waitFor(before + 1, { path: '/rolled' })).at(-1)
  const [{ secret = '' } = {}] = answers.filter(({ replayed }) => !replayed)
  expect(request && signersOf(request, [secret])).toEqual([-1])
})

test('nothing in the log tells what a key was or what was asked for', async () => {
  const how = { idempotencyKey: 'canary-of-this-test' }
  await server.endpoints.create(
    davit.organization,
    draft('canary', { description: 'canary description' }),
    how,
  )
  const { items } = await davit.api.list(deliverySegments, { namespace: davit.namespace, limit: 500 })
  const lines = items.flatMap((raw) => readDeliverySegment(raw).spec.events)
  expect(lines.length).toBeGreaterThan(0)
  for (const line of lines) expect(line).not.toContain('canary')
})

test('after a day the key is free', async () => {
  const id = await make('free')
  const how = newKey()
  const first = await server.publishing.ping(id, how)
  davit.clock.jump(DAY_MS)
  const second = await server.publishing.ping(id, how)
  expect(second.replayed).toBe(false)
  expect(second.eventId).not.toBe(first.eventId)
  const requests = await receiver.waitFor(2, { path: '/free' })
  expect(requests.map(({ headers }) => headers['webhook-id'])).toEqual([first.eventId, second.eventId])
})
