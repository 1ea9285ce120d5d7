/**
 * Several replicas of the REST server: a change of an endpoint that one has answered is active at all (design/architecture, "One
 * event, end to end").
 */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { leases, REPLICA_LABEL } from '../../src/apis/core-kinds.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { codeOf } from '../support/code-of.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { lateWatches } from '../support/late-watches.ts'
import { type LiveServer, type LiveServerOptions, startLiveServer } from '../support/live-server.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const LEASE_MS = 3000
/** What a watch is behind at most, where it is. */
const LATE_MS = 80
const ROUNDS = 15
const LANES = [
  ['environment.started', 'billing.updated'],
  ['environment.stopped', 'member.joined'],
] as const

let davit: TestDavit
let receiver: Receiver
let server: LiveServer
const servers: LiveServer[] = []

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('rest-server-replicas')
  server = await join()
})

afterEach(async () => {
  await Promise.all(servers.splice(1).map((one) => one.stop()))
})

afterAll(async () => {
  await server?.stop()
  await davit?.stop()
  await receiver?.close()
})

async function join(options: LiveServerOptions = {}): Promise<LiveServer> {
  const started = await startLiveServer(davit, {}, { leaseMs: LEASE_MS, ...options })
  servers.push(started)
  return started
}

/** Its watch of endpoints is behind by whatever `ms` says. */
function joinLate(ms: () => number): Promise<LiveServer> {
  return join({ wrapApi: (api) => lateWatches(api, webhookEndpoints, ms) })
}

function publish(at: LiveServer, type: string, idempotencyKey?: string) {
  return at.publishing.publish(davit.organization, { type, dataText: '{}' }, { idempotencyKey })
}

async function create(at: LiveServer, type: string) {
  const draft = { url: `${receiver.url}/hook`, eventTypes: [type] }
  const { endpoint } = await at.endpoints.create(davit.organization, draft, {})
  return { organization: davit.organization, endpointId: endpoint.endpointId }
}

async function leasesLeft(): Promise<number> {
  const labelSelector = `${REPLICA_LABEL}=api`
  return (await davit.api.list(leases, { namespace: davit.namespace, labelSelector })).items.length
}

test('an endpoint made, changed, paused, resumed or deleted through one is honoured by the next publish through another, however late its watch is', async () => {
  const late = () => Math.random() * LATE_MS
  const all = [server, await joinLate(late), await joinLate(late)]
  let turn = 0
  const next = () => {
    turn += 1
    return all[turn % all.length] as LiveServer
  }
  const wrong: string[] = []
  let looks = 0
  const check = async (type: string, deliveries: number, after: string) => {
    // At any replica, but usually one that has not made the change.
    const answers = await Promise.all(all.map((one) => publish(one, type)))
    looks += answers.length
    for (const answer of answers)
      if (answer.deliveries !== deliveries) wrong.push(`${after}: ${answer.deliveries} deliveries of ${type}`)
  }
  const runLane = async ([type, other]: readonly [string, string]) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const id = await create(next(), type)
      await check(type, 1, 'made')
      await next().endpoints.change(id, { eventTypes: [other] }, {})
      await check(type, 0, 'changed')
      await check(other, 1, 'changed')
      await next().endpoints.change(id, { status: 'disabled' }, {})
      await check(other, 0, 'paused')
      await next().endpoints.change(id, { status: 'enabled' }, {})
      await check(other, 1, 'resumed')
      await next().endpoints.remove(id, {})
      await check(other, 0, 'deleted')
    }
  }
  await Promise.all(LANES.map(runLane))
  expect(wrong).toEqual([])
  expect(looks).toBeGreaterThan(500)
})

test('keyed publishes through all of them at a time are one event each', async () => {
  const all = [server, await joinLate(() => Math.random() * LATE_MS), await join()]
  const id = await create(server, 'member.joined')
  const keys = Array.from({ length: 30 }, (_, at) => `order-${at}`)
  const ids = await Promise.all(
    keys.map(async (key) => {
      const answers = await Promise.all([...all, ...all].map((one) => publish(one, 'member.joined', key)))
      expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
      return new Set(answers.map(({ eventId, deliveries }) => `${eventId} ${deliveries}`))
    }),
  )
  expect(ids.map(({ size }) => size)).toEqual(keys.map(() => 1))
  expect(new Set(ids.flatMap((one) => [...one])).size).toBe(keys.length)
  await server.endpoints.remove(id, {})
})

test('one that was killed holds a change up until its lease has ended, and no later one', async () => {
  const mortal = await join()
  const id = await create(server, 'member.joined')
  servers.pop()
  mortal.kill()
  const began = performance.now()
  await server.endpoints.change(id, { description: 'first' }, {})
  const first = performance.now() - began
  await server.endpoints.change(id, { description: 'second' }, {})
  const second = performance.now() - began - first
  expect(first).toBeGreaterThan(LEASE_MS / 2)
  expect(second).toBeLessThan(LEASE_MS / 2)
})

test('while one that lives has not seen a change, that is not acknowledged; it stands, and a repeat waits again', async () => {
  const gate = Promise.withResolvers<void>()
  let isHeld = false
  const behind = await join({
    wrapApi: (api) => ({
      ...api,
      async *watch(type, query, version, signal) {
        for await (const events of api.watch(type, query, version, signal)) {
          if (isHeld && type.plural === webhookEndpoints.plural) await gate.promise
          yield events
        }
      },
    }),
  })
  const [changed, removed] = [await create(server, 'member.joined'), await create(server, 'billing.updated')]
  isHeld = true
  const key = { idempotencyKey: 'made-while-one-is-behind' }
  const draft = { url: `${receiver.url}/made`, eventTypes: ['environment.stopped'] }
  const make = () => server.endpoints.create(davit.organization, draft, key)
  const change = () => server.endpoints.change(changed, { eventTypes: ['environment.started'] }, {})
  const remove = () => server.endpoints.remove(removed, {})
  const all = () => Promise.all([make, change, remove].map((ask) => codeOf(ask())))
  expect(await all()).toEqual(['not_acknowledged', 'not_acknowledged', 'not_acknowledged'])
  const again = [make(), change()] as const
  const gone = codeOf(remove())
  isHeld = false
  gate.resolve()
  const [made, { endpoint }] = await Promise.all(again)
  expect(made.secret).toMatch(/^whsec_/)
  expect(endpoint.eventTypes).toEqual(['environment.started'])
  expect(await gone).toBe('not_found')
  const deliveries = async (type: string) => (await publish(behind, type)).deliveries
  expect(await deliveries('environment.stopped')).toBe(1)
  expect(await deliveries('environment.started')).toBe(1)
  expect(await deliveries('billing.updated')).toBe(0)
})

test('a Lease that was taken away is made anew, after which endpoints are read again', async () => {
  const other = await join()
  const { items } = await davit.api.list(leases, {
    namespace: davit.namespace,
    labelSelector: `${REPLICA_LABEL}=api`,
  })
  const lists = () =>
    other.api.calls.filter(({ verb, plural }) => verb === 'list' && plural === 'webhookendpoints').length
  const before = lists()
  for (const { metadata } of items)
    await davit.api.delete(leases, { namespace: davit.namespace, name: metadata.name })
  await until(
    async () =>
      (lists() > before && (await leasesLeft()) === 2 && other.problems().length === 0) || undefined,
    () => `left: ${other.problems()}`,
  )
})

test('one that ends takes its Lease with it, so that nobody waits for it', async () => {
  const before = await leasesLeft()
  const other = await join()
  expect(await leasesLeft()).toBe(before + 1)
  servers.pop()
  await other.stop()
  expect(await leasesLeft()).toBe(before)
})
