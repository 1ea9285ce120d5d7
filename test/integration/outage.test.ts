/**
 * The API server is killed under load, and stays away for longer than attempts that cannot be stored may go on; etcd
 * is compacted meanwhile. The controller is a process of its own, as in a cluster.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { ControllerProcess } from '../chaos/controller-process.ts'
import { publishNumber } from '../chaos/publisher.ts'
import { ENDPOINTS, type Setting, setUp } from '../chaos/setting.ts'
import { readDeliveries, readEvents, readLog } from '../chaos/stored.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'
import { judge, type Reception, violations } from '../support/verdict.ts'

const AWAY_MS = 10_000
/** Outcomes that cannot be stored stop everything after 5 s; the first of them may come a moment after the kill. */
const MAX_UNSTORED_MS = 6000
const READY_AGAIN_MS = 15_000
/** It has work for all of the outage. */
const SLOW = { name: 'slow', concurrency: 1 }
const SLOW_MS = 400
/** Events that were made before the kill, about. */
const UNDER_WAY = 70

type Health = { at: number; live: number; ready: number; problems: string }

let controlPlane: ControlPlane
let receiver: Receiver
let setting: Setting
let controller: ControllerProcess
let folder = ''
let opsPort = 0
const receptions: Reception[] = []
const probes: Health[] = []
let killedAt = 0
let startedAgainAt = 0

beforeAll(async () => {
  controlPlane = await startControlPlane()
  receiver = await startReceiver()
  setting = await setUp(controlPlane, receiver.url)
  await setting.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { namespace: setting.organization, name: SLOW.name },
    spec: { ...SLOW, name: undefined, url: `${receiver.url}/slow`, eventTypes: ['*'] },
  })
  for (const { name } of ENDPOINTS) receiver.answer(`/${name}`, (request) => answer(name, request))
  receiver.answer('/slow', (request) => answer('slow', request))
  folder = await mkdtemp(join(tmpdir(), 'davit-outage-'))
  opsPort = await freePort()
  controller = new ControllerProcess({
    kubeconfigPath: controlPlane.kubeconfigPath,
    namespace: setting.namespace,
    replica: 'outage',
    opsPort,
    waitScale: 0.001,
    logPath: join(folder, 'controller.log'),
  })
  await controller.untilReady()
})

afterAll(async () => {
  await controller?.kill()
  await setting?.close()
  await receiver?.close()
  await controlPlane?.stop()
  if (folder) await rm(folder, { recursive: true })
})

/** One in five is rejected once. */
function answer(endpoint: string, request: ReceivedRequest) {
  const id = String(request.headers['webhook-id'])
  const earlier = receptions.some((one) => one.endpoint === endpoint && one.id === id)
  const refused = !earlier && Number(/"n":(\d+)/.exec(request.body.toString())?.[1]) % 5 === 0
  receptions.push({ endpoint, id, run: 1, answer: refused ? 'failed' : 'ok' })
  return {
    status: refused ? 503 : 200,
    ...(endpoint === 'slow' && startedAgainAt === 0 ? { delayMs: SLOW_MS } : {}),
  }
}

async function publish(n: number): Promise<void> {
  await publishNumber(setting.api, setting.organization, n)
}

async function probe(): Promise<Health> {
  const ask = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${opsPort}${path}`)
    return { status: response.status, text: await response.text() }
  }
  const [live, ready] = [await ask('/healthz'), await ask('/readyz')]
  return { at: performance.now(), live: live.status, ready: ready.status, problems: ready.text }
}

/** Publishes while deliveries go on, and kills the API server among all that. @returns how many were acknowledged */
async function publishUntilGone(): Promise<number> {
  for (let n = 0; ; n += 1) {
    try {
      await publish(n)
    } catch {
      return n
    }
    if (n === UNDER_WAY) await receiver.waitFor(UNDER_WAY / 2, { path: '/one' })
    if (n === UNDER_WAY + 10) {
      process.kill(controlPlane.pids.apiServer, 'SIGKILL')
      killedAt = performance.now()
    }
  }
}

describe('the API server is away for ten seconds under load', { timeout: 60_000 }, () => {
  let acknowledged = 0

  beforeAll(async () => {
    acknowledged = await publishUntilGone()
    while (performance.now() < killedAt + AWAY_MS) {
      probes.push(await probe())
      if (probes.length === 8) await controlPlane.compactEtcd()
      await sleep(250)
    }
    startedAgainAt = performance.now()
    await controlPlane.startApiServer()
    await until(
      async () => {
        const health = await probe()
        probes.push(health)
        return health.ready === 200 || undefined
      },
      () => `not ready: ${probes.at(-1)?.problems}`,
      READY_AGAIN_MS,
    )
    await publish(1000)
    await until(
      async () => {
        const events = await readEvents(setting.api, setting.organization)
        return events.every(({ status }) => status?.state === 'dispatched') || undefined
      },
      () => 'not all is delivered',
      30_000,
    )
  })

  test('everything that was acknowledged is delivered, once and in order where asked', async () => {
    const events = await readEvents(setting.api, setting.organization)
    const log = await readLog(setting.api, setting.namespace)
    expect(events.length).toBeGreaterThan(acknowledged)
    expect(log.events.length).toBe(events.length)
    const verdict = judge({
      accepted: log.deliveries,
      receptions,
      orderedEndpoints: new Set(['ordered', 'ordered-too']),
      killed: new Set(),
      maxAttempts: 8,
    })
    expect(violations(verdict)).toEqual([])
    const states = (await readDeliveries(setting.api, setting.organization)).map(
      ({ status }) => status?.state,
    )
    expect(new Set(states)).toEqual(new Set(['succeeded']))
  })

  test('nothing new is sent once outcomes could not be stored for five seconds', () => {
    const { requests } = receiver
    expect(receiver.received('/slow').length).toBeGreaterThan(UNDER_WAY)
    const during = requests.map(({ receivedAt }) => receivedAt - killedAt).filter((ms) => ms > 0)
    const late = during.filter((ms) => ms > MAX_UNSTORED_MS && ms < startedAgainAt - killedAt)
    // Deliveries from the log continue for this long.
    expect(during.filter((ms) => ms < MAX_UNSTORED_MS).length).toBeGreaterThan(5)
    expect(late).toEqual([])
  })

  test('it is live all the time, says why it is not ready, and is the same process at the end', async () => {
    expect(new Set(probes.map(({ live }) => live))).toEqual(new Set([200]))
    const unready = probes.filter(({ ready }) => ready === 503)
    expect((unready[0]?.at ?? Number.POSITIVE_INFINITY) - killedAt).toBeLessThan(7000)
    const last = unready.findLast(({ at }) => at < startedAgainAt)
    expect(last?.problems).toMatch(/failed to store delivery outcomes/)
    expect(last?.problems).toMatch(/failed to watch the API server for \d+ s/)
    expect(controller.running).toBe(true)
    const starts = (await readFile(join(folder, 'controller.log'), 'utf8')).split(
      '"event":"process_starting"',
    )
    expect(starts.length - 1).toBe(1)
  })
})
