/** Two API servers on one etcd, one of which hears late of what is written: whoever reads from that one does nothing on a view that is too old. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Asking, ask } from '../support/facade-bed.ts'
import { untilLetIn } from '../support/facade-tour.ts'
import {
  CONTROLLER_ACCOUNT,
  FACADE_ACCOUNT,
  type FacadeProcess,
  type Installation,
  startInstallation,
} from '../support/installation.ts'
import { type Receiver, startReceiver, untilQuiet } from '../support/receiver.ts'
import { SecondApiServer } from '../support/second-api-server.ts'
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
const QUIET_MS = 3000
const LIMIT_MS = 120_000

let davit: Installation
let second: SecondApiServer
let receiver: Receiver
let key: string
/** At the first API server, and at the one that is behind. */
let facades: [FacadeProcess, FacadeProcess]

const figures: Record<string, number> = { 'behind, ms': BEHIND_MS }

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  second = await SecondApiServer.start(davit.controlPlane, BEHIND_MS)
  const lease = { DAVIT_LEASE_SECONDS: String(LEASE_SECONDS) }
  const controllers = [
    await davit.startController(lease),
    await davit.startController({ ...lease, KUBECONFIG: await configOf(CONTROLLER_ACCOUNT) }),
  ]
  const late = { KUBECONFIG: await configOf(FACADE_ACCOUNT) }
  facades = [await davit.startFacade(), await davit.startFacade({ settings: late })]
  await Promise.all([...controllers, ...facades.map(({ process }) => process)].map((one) => one.untilReady()))
  for (const facade of facades) await untilLetIn({ facade, organization: ORGANIZATION, owner: key })
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await second?.close()
  await receiver?.close()
})

/** A way to the API server that is behind. */
async function configOf(account: typeof FACADE_ACCOUNT): Promise<string> {
  const config = await readFile(await davit.makeKubeconfig(account), 'utf8')
  const path = join(davit.folder, `second.${account.name}.kubeconfig`)
  await writeFile(path, config.replaceAll(davit.controlPlane.url, second.url), { mode: 0o600 })
  return path
}

async function tell(
  at: FacadeProcess,
  path: string,
  asking: Omit<Asking, 'body'> & { wanted: number; body: object },
) {
  const { wanted, body, ...how } = asking
  const answer = await ask(at, path, { method: 'POST', key, body: JSON.stringify(body), ...how })
  expect([path, answer.status, answer.status === wanted ? '' : answer.text]).toEqual([path, wanted, ''])
  return answer.json
}

async function makeEndpoint(at: FacadeProcess, name: string, more: object = {}): Promise<string> {
  const body = { url: `${receiver.url}/${name}`, eventTypes: [TYPE], ...more }
  const { endpoint } = await tell(at, HOOKS, { body, wanted: 201 })
  return (endpoint as { endpointId: string }).endpointId
}

async function publish(at: FacadeProcess, data: object, headers: Record<string, string> = {}) {
  return await tell(at, EVENTS, { body: { type: TYPE, data }, headers, wanted: 202 })
}

function dataAt(path: string): unknown[] {
  return receiver.received(path).map(({ body }) => (JSON.parse(body.toString()) as { data: unknown }).data)
}

test(
  'what one facade has answered is in force at the other, whichever of them is behind',
  async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const [here, there] = round % 2 === 0 ? facades : facades.toReversed()
      if (!here || !there) throw new Error('there are no facades')
      const id = await makeEndpoint(here, `hook-${round}`)
      await publish(there, { round, is: 'made' })
      await receiver.waitFor(1, { path: `/hook-${round}`, timeoutMs: LIMIT_MS })
      const path = `${HOOKS}/${id}`
      await tell(here, path, { method: 'PATCH', body: { status: 'disabled' }, wanted: 200 })
      await publish(there, { round, is: 'disabled' })
      await tell(there, path, { method: 'PATCH', body: { status: 'enabled' }, wanted: 200 })
      await publish(here, { round, is: 'enabled' })
      await receiver.waitFor(2, { path: `/hook-${round}`, timeoutMs: LIMIT_MS })
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
    await makeEndpoint(facades[0], 'ordered', { ordered: true })
    const ids = new Set<unknown>()
    for (let n = 0; n < ORDERED; n += 1) {
      const headers = { 'idempotency-key': `key-${n}` }
      const [here, there] = n % 2 === 0 ? facades : facades.toReversed()
      if (!here || !there) throw new Error('there are no facades')
      const published = await publish(here, { n }, headers)
      const repeated = await publish(there, { n }, headers)
      expect(repeated.eventId).toBe(published.eventId)
      ids.add(published.eventId)
    }
    const requests = await receiver.waitFor(ORDERED, { path: '/ordered', timeoutMs: LIMIT_MS })
    await untilQuiet(receiver, QUIET_MS)
    figures['keyed events'] = ORDERED
    figures['received of them'] = requests.length
    figures['received twice'] = receiver.received('/ordered').length - ids.size
    expect(dataAt('/ordered')).toEqual(Array.from({ length: ORDERED }, (_, n) => ({ n })))
  },
  LIMIT_MS,
)

test(
  'what the one that is behind has shown last is made good when it has died, and when it is there again',
  async () => {
    const [first, late] = facades
    await makeEndpoint(first, 'lasting')
    let n = 0
    const next = async (at: FacadeProcess) => await publish(at, { n: n++ })
    for (let i = 0; i < 10; i += 1) await next(i % 2 === 0 ? first : late)
    await second.stop()
    const died = performance.now()
    for (let i = 0; i < 10; i += 1) await next(first)
    const here = await receiver.waitFor(n, { path: '/lasting', timeoutMs: LIMIT_MS })
    figures['all there after it has died, s'] = Math.round((performance.now() - died) / 1000)
    expect(here).toHaveLength(n)
    await until(
      async () => ((await ask(late, HOOKS, { key })).status === 503 ? true : undefined),
      () => 'a facade without an API server answers',
      LIMIT_MS,
    )
    await second.start()
    await until(
      async () => ((await ask(late, HOOKS, { key })).status === 200 ? true : undefined),
      () => 'a facade does not find its API server again',
      LIMIT_MS,
    )
    for (let i = 0; i < 10; i += 1) await next(late)
    await receiver.waitFor(n, { path: '/lasting', timeoutMs: LIMIT_MS })
    const numbers = dataAt('/lasting').map((data) => (data as { n: number }).n)
    tellFigures('two-api-servers', figures)
    expect(new Set(numbers)).toEqual(new Set(Array.from({ length: n }, (_, i) => i)))
  },
  LIMIT_MS * 2,
)
