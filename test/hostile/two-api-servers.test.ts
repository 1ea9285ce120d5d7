/** Two API servers on one etcd, one of which lags behind: a reader of that one does nothing on a view that is too old. */

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { leases, leaseTimes, REPLICA_LABEL } from '../../src/apis/core-kinds.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  SERVER_ACCOUNT,
  type ServerProcess,
  startInstallation,
} from '../support/installation.ts'
import { type Receiver, startReceiver, untilQuiet } from '../support/receiver.ts'
import { SecondApiServer } from '../support/second-api-server.ts'
import { type Asking, ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'
import { tellFigures } from './figures.ts'

const BEHIND_MS = 400
const ORGANIZATION = 'acme'
const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
const EVENTS = `/organizations/${ORGANIZATION}/events`
const TYPE = 'billing.updated'
const ROUNDS = 4
const ORDERED = 20
const LEASE_SECONDS = 6
const LASTING = 12
const QUIET_MS = 3000
/** Less than the limit of the tests, so that they report what is missing. */
const WITHIN_MS = 100_000
const LIMIT_MS = 120_000

let davit: Installation
let second: SecondApiServer
let receiver: Receiver
let key: string
/** At the first API server, and at the one that is behind. */
let servers: [ServerProcess, ServerProcess]

const figures: Record<string, number> = { 'behind, ms': BEHIND_MS }

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  second = await SecondApiServer.start(davit.controlPlane, BEHIND_MS)
  const lease = { DAVIT_LEASE_DURATION: `${LEASE_SECONDS}s` }
  const controllers = [
    await davit.startController(lease),
    await davit.startController({ ...lease, KUBECONFIG: await configOf(CONTROLLER_ACCOUNT) }),
  ]
  const late = { KUBECONFIG: await configOf(SERVER_ACCOUNT) }
  servers = [await davit.startServer(), await davit.startServer({ settings: late })]
  await Promise.all([...controllers, ...servers.map(({ process }) => process)].map((one) => one.untilReady()))
  for (const server of servers) await untilLetIn({ server, organization: ORGANIZATION, owner: key })
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await second?.close()
  await receiver?.close()
})

/** A kubeconfig for the API server that is behind. */
async function configOf(account: typeof SERVER_ACCOUNT): Promise<string> {
  const config = await readFile(await davit.makeKubeconfig(account), 'utf8')
  const path = join(davit.folder, `second.${account.name}.kubeconfig`)
  await writeFile(path, config.replaceAll(davit.controlPlane.url, second.url), { mode: 0o600 })
  return path
}

async function tell(
  at: ServerProcess,
  path: string,
  asking: Omit<Asking, 'body'> & { wanted: number; body: object },
) {
  const { wanted, body, ...how } = asking
  const answer = await ask(at, path, { method: 'POST', key, body: JSON.stringify(body), ...how })
  expect([path, answer.status, answer.status === wanted ? '' : answer.text]).toEqual([path, wanted, ''])
  return answer.json
}

async function makeEndpoint(at: ServerProcess, name: string, more: object = {}): Promise<string> {
  const body = { url: `${receiver.url}/${name}`, eventTypes: [TYPE], ...more }
  const { endpoint } = await tell(at, HOOKS, { body, wanted: 201 })
  return (endpoint as { endpointId: string }).endpointId
}

async function publish(at: ServerProcess, data: object, headers: Record<string, string> = {}) {
  return await tell(at, EVENTS, { body: { type: TYPE, data }, headers, wanted: 202 })
}

async function publishTo(at: ServerProcess, data: object) {
  return await ask(at, EVENTS, { method: 'POST', key, body: JSON.stringify({ type: TYPE, data }) })
}

function numbersAt(name: string): Set<number> {
  return new Set(dataAt(`/${name}`).map((data) => (data as { n: number }).n))
}

function dataAt(path: string): unknown[] {
  return receiver.received(path).map(({ body }) => (JSON.parse(body.toString()) as { data: unknown }).data)
}

test('the other one is behind', async () => {
  const lags: number[] = []
  for (let i = 0; i < 3; i += 1) lags.push(await lagOf())
  figures['behind, measured, ms'] = Math.round(Math.min(...lags))
  expect(Math.min(...lags)).toBeGreaterThan(BEHIND_MS / 2)
})

/** From the answer of a read at the first to that of one at the other: each goes to etcd. */
async function lagOf(): Promise<number> {
  const { access } = davit.controlPlane
  const path = `/api/v1/namespaces/${ORGANIZATION}`
  const took = async (server: string) => {
    const asked = performance.now()
    await requestApi({ ...access, server }, { method: 'GET', path })
    return performance.now() - asked
  }
  const here = await took(access.server)
  return (await took(second.url)) - here
}

test(
  'a change that one REST server has answered takes effect at the other, whichever of them is behind',
  async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const [here, there] = round % 2 === 0 ? servers : servers.toReversed()
      if (!here || !there) throw new Error('there are no REST servers')
      const id = await makeEndpoint(here, `hook-${round}`)
      await publish(there, { round, is: 'made' })
      await receiver.waitFor(1, { path: `/hook-${round}`, timeoutMs: WITHIN_MS })
      const path = `${HOOKS}/${id}`
      await tell(here, path, { method: 'PATCH', body: { status: 'disabled' }, wanted: 200 })
      await publish(there, { round, is: 'disabled' })
      await tell(there, path, { method: 'PATCH', body: { status: 'enabled' }, wanted: 200 })
      await publish(here, { round, is: 'enabled' })
      await receiver.waitFor(2, { path: `/hook-${round}`, timeoutMs: WITHIN_MS })
      const gone = await ask(here, path, { method: 'DELETE', key })
      expect(gone.status).toBe(204)
      await publish(there, { round, is: 'gone' })
    }
    await untilQuiet(receiver, QUIET_MS)
    const all = Array.from({ length: ROUNDS }, (_, round) => dataAt(`/hook-${round}`))
    const wrong = all.flat().filter((data) => /disabled|gone/.test(String((data as { is?: string }).is)))
    figures.changes = ROUNDS * 4
    figures['events matched as before an answered change'] = wrong.length
    expect(all).toEqual(
      all.map((_, round) => [
        { round, is: 'made' },
        { round, is: 'enabled' },
      ]),
    )
  },
  LIMIT_MS,
)

test(
  'one key is one event through both, and what is published in turn through both comes in order, each once',
  async () => {
    await makeEndpoint(servers[0], 'ordered', { ordered: true })
    const ids = new Set<unknown>()
    for (let n = 0; n < ORDERED; n += 1) {
      const headers = { 'idempotency-key': `key-${n}` }
      const [here, there] = n % 2 === 0 ? servers : servers.toReversed()
      if (!here || !there) throw new Error('there are no REST servers')
      const published = await publish(here, { n }, headers)
      const repeated = await publish(there, { n }, headers)
      expect(repeated.eventId).toBe(published.eventId)
      ids.add(published.eventId)
    }
    const requests = await receiver.waitFor(ORDERED, { path: '/ordered', timeoutMs: WITHIN_MS })
    await untilQuiet(receiver, QUIET_MS)
    figures['keyed events'] = ORDERED
    figures['received of them'] = requests.length
    figures['received twice'] = receiver.received('/ordered').length - ids.size
    expect(dataAt('/ordered')).toEqual(Array.from({ length: ORDERED }, (_, n) => ({ n })))
  },
  LIMIT_MS,
)

/** Of the Leases of both controllers, as the first API server has them. @returns ms since the epoch */
async function oldestRenewal(): Promise<number> {
  const { items } = await davit.api.list(leases, {
    namespace: OPERATOR_NAMESPACE,
    labelSelector: `${REPLICA_LABEL}=controller`,
  })
  expect(items).toHaveLength(2)
  return Math.min(...items.map((lease) => Date.parse(leaseTimes.parse(lease).spec.renewTime)))
}

test(
  'what a controller at the one that has died had is done by the other, and nothing is missing when that is there again',
  async () => {
    const [first, late] = servers
    // Enough for each controller to have some.
    const names = Array.from({ length: LASTING }, (_, i) => `lasting-${i}`)
    for (const name of names) await makeEndpoint(first, name)
    let n = 0
    const some = async (at: ServerProcess) => {
      for (let i = 0; i < 5; i += 1) await publish(at, { n: n++ })
    }
    const untilAllCame = async () =>
      await until(
        async () => (names.every((name) => numbersAt(name).size === n) ? true : undefined),
        () => `of ${n} events came ${names.map((name) => numbersAt(name).size)}`,
        WITHIN_MS,
      )
    await some(first)
    await some(late)
    await untilAllCame()
    const died = Date.now()
    await second.stop()
    const renewedAt = await oldestRenewal()
    await some(first)
    await untilAllCame()
    const cameAt = Date.now()
    figures['all there after it has died, s'] = Math.round((cameAt - died) / 1000)
    await second.start()
    await until(
      async () => ((await publishTo(late, { n })).status === 202 ? true : undefined),
      () => 'a REST server does not find its API server again',
      WITHIN_MS,
    )
    n += 1
    await some(late)
    await untilAllCame()
    tellFigures('two-api-servers', figures)
    // Those of the cut off controller had to wait for the end of its Lease.
    expect(cameAt - renewedAt).toBeGreaterThanOrEqual(LEASE_SECONDS * 1000)
  },
  LIMIT_MS * 2,
)
