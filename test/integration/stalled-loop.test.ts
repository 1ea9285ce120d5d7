/** The event loop of one of two controllers stands still for longer than its Lease and an attempt may last. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import { NOTE_TYPE, publishNumber } from '../chaos/publisher.ts'
import { type Setting, setUp } from '../chaos/setting.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { RoleProcess, stallingFor } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const LIMIT_MS = 120_000
/** Three seconds of Lease, and 21 in which the last attempt of a silent replica may be in progress. */
const TAKEN_OVER_MS = 24_000
const STALLED_MS = 35_000
const PATHS = Array.from({ length: 12 }, (_, n) => `/to-${n}`)

let controlPlane: ControlPlane
let receiver: Receiver
let setting: Setting
let folder = ''
const controllers: RoleProcess[] = []

beforeAll(async () => {
  controlPlane = await startControlPlane()
  receiver = await startReceiver()
  setting = await setUp(controlPlane, receiver.url)
  for (const [n, path] of PATHS.entries())
    await setting.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: webhookEndpointKind.kind,
      metadata: { namespace: setting.organization, name: path.slice(1) },
      spec: {
        url: receiver.url + path,
        eventTypes: [NOTE_TYPE],
        ordered: n % 2 === 0,
      },
    })
  folder = await mkdtemp(join(tmpdir(), 'davit-stalled-'))
  for (const replica of ['one', 'two'])
    controllers.push(
      new RoleProcess({
        role: 'controller',
        kubeconfigPath: controlPlane.kubeconfigPath,
        namespace: setting.namespace,
        replica,
        opsPort: await freePort(),
        logPath: join(folder, `${replica}.log`),
        settings: { DAVIT_LEASE_DURATION: '3s', ...stallingFor(STALLED_MS) },
      }),
    )
  for (const controller of controllers) await controller.untilReady()
}, LIMIT_MS)

afterAll(async () => {
  for (const controller of controllers) await controller.kill()
  await setting?.close()
  await receiver?.close()
  await controlPlane?.stop()
  if (folder) await rm(folder, { recursive: true })
})

function numbersAt(path: string): number[] {
  return receiver
    .received(path)
    .map(({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n)
}

async function publish(from: number, to: number): Promise<void> {
  for (let n = from; n < to; n += 1) await publishNumber(setting.api, setting.organization, n)
}

/** Each has received each number up to there, once, and in order where asked. */
async function allReceived(to: number): Promise<void> {
  const wanted = Array.from({ length: to }, (_, n) => n)
  await until(
    async () => PATHS.every((path) => new Set(numbersAt(path)).size >= to) || undefined,
    () => `not all have come: ${PATHS.map((path) => numbersAt(path).length)}`,
    LIMIT_MS,
  )
  for (const [n, path] of PATHS.entries()) {
    const numbers = numbersAt(path)
    expect(n % 2 === 0 ? numbers : numbers.toSorted((a, b) => a - b)).toEqual(wanted)
  }
}

async function sumOf(gauge: string): Promise<number> {
  const values = await Promise.all(controllers.map((one) => one.gauge(gauge)))
  return values.reduce<number>((sum, value) => sum + (value ?? Number.NaN), 0)
}

/** Both have their share, and nothing is in progress. */
async function atRest(): Promise<void> {
  await until(
    async () => {
      const owned = await Promise.all(controllers.map((one) => one.gauge('davit_shards_owned')))
      const isShared = owned.every((count = 0) => count > SHARD_COUNT / 4)
      const pending = await sumOf('davit_deliveries_pending')
      return (isShared && owned.reduce((a = 0, b = 0) => a + b) === SHARD_COUNT && pending === 0) || undefined
    },
    () => 'the shards are not shared, or something is pending',
    LIMIT_MS,
  )
}

test(
  'another one goes on with what is its own, and once it runs again it sends nothing that it does not own',
  async () => {
    await atRest()
    await publish(0, 10)
    await allReceived(10)
    await atRest()
    const begun = performance.now()
    controllers[0]?.stall()
    await publish(10, 20)
    await allReceived(20)
    const lastAt = Math.max(...receiver.requests.map(({ receivedAt }) => receivedAt))
    expect(lastAt - begun).toBeGreaterThan(TAKEN_OVER_MS / 2)
    expect(lastAt - begun).toBeLessThan(STALLED_MS)
    await atRest()
    expect(performance.now() - begun).toBeGreaterThan(STALLED_MS)
    await publish(20, 30)
    await allReceived(30)
  },
  3 * LIMIT_MS,
)
