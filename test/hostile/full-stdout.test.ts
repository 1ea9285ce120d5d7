/** The reader of Davit's log may stop reading: deliveries continue, and the process ends when it is asked to. */
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../../playground/free-port.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { CONTROLLER_ACCOUNT, type Installation, startInstallation } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { RoleProcess } from '../support/role-process.ts'
import { tellFigures } from './figures.ts'

const EVENTS = 40
/** Between the signal and the end: its drain time, and more on a busy machine. */
const END_LIMIT_MS = 20_000

let davit: Installation
let receiver: Receiver
let controller: RoleProcess
let pipe: number

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization('acme')
  const path = join(davit.folder, 'stdout')
  execFileSync('mkfifo', [path])
  pipe = fullPipe(path)
  controller = new RoleProcess({
    role: 'controller',
    kubeconfigPath: await davit.makeKubeconfig(CONTROLLER_ACCOUNT),
    namespace: 'davit-system',
    replica: 'mute',
    opsPort: await freePort(),
    logPath: path,
    settings: { DAVIT_SHUTDOWN_TIMEOUT: '1s' },
  })
}, 120_000)

afterAll(async () => {
  if (controller?.running) await controller.kill()
  await davit?.stop()
  await receiver?.close()
  if (pipe !== undefined) closeSync(pipe)
})

/** Creates a pipe without a reader that is full to the last byte. */
function fullPipe(path: string): number {
  const end = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  for (const size of [4096, 1]) {
    try {
      for (;;) writeSync(end, Buffer.alloc(size, 'x'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
  return end
}

async function make(
  kind: string,
  type: Parameters<Installation['api']['create']>[0],
  name: string,
  spec: object,
) {
  const metadata = { name, namespace: 'acme' }
  await davit.api.create(type, { apiVersion: API_VERSION, kind, metadata, spec })
}

test('it becomes ready, delivers, and ends with 0', async () => {
  await controller.untilReady()
  await make('WebhookEndpoint', webhookEndpoints, 'good', { url: `${receiver.url}/good`, eventTypes: ['*'] })
  for (let n = 0; n < EVENTS; n += 1) {
    await make('WebhookEvent', webhookEvents, `event-${n}`, {
      type: 'billing.updated',
      dataText: `{"n":${n}}`,
    })
  }
  await receiver.waitFor(EVENTS, { path: '/good' })
  const signaledAt = performance.now()
  const ended = await Promise.race([controller.stop(), sleep(END_LIMIT_MS, 'still runs')])
  tellFigures('full-stdout', {
    events: EVENTS,
    delivered: receiver.received('/good').length,
    'exit code': String(ended),
    'ms from SIGTERM to the end': Math.round(performance.now() - signaledAt),
  })
  expect(ended).toBe(0)
}, 120_000)
