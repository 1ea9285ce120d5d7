/** A delivery that ends the process that sends it, each time. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookDeliveries, webhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { NOTE_TYPE, publishNumber } from '../chaos/publisher.ts'
import { type Setting, setUp } from '../chaos/setting.ts'
import { tellFigures } from '../hostile/figures.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { exitingAt, RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const LIMIT_MS = 180_000
/** Three that are not careful, one that records it with the others, one that tries it alone, and one more that may come in between. */
const MOST_ENDS = 6
const DEADLY = 'deadly'
const OTHERS = ['unordered', 'in-order']
/** What is set aside is begun again after six seconds instead of five minutes. */
const WAIT_SCALE = 0.02
/** As a kubelet would, that is not patient for ever. */
const MOST_STARTS = 12

let controlPlane: ControlPlane
let receiver: Receiver
let setting: Setting
let controller: RoleProcess | undefined
let folder = ''
let ends = 0

beforeAll(async () => {
  controlPlane = await startControlPlane()
  receiver = await startReceiver()
  setting = await setUp(controlPlane, receiver.url)
  for (const name of [DEADLY, ...OTHERS])
    await setting.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: webhookEndpointKind.kind,
      metadata: { namespace: setting.organization, name },
      spec: { url: `${receiver.url}/${name}`, eventTypes: [NOTE_TYPE], ordered: name === 'in-order' },
    })
  folder = await mkdtemp(join(tmpdir(), 'davit-deadly-'))
}, LIMIT_MS)

afterAll(async () => {
  await controller?.kill()
  await setting?.close()
  await receiver?.close()
  await controlPlane?.stop()
  if (folder) await rm(folder, { recursive: true })
})

/** As a kubelet does, whenever it has ended. */
async function start(): Promise<void> {
  const process = new RoleProcess({
    role: 'controller',
    kubeconfigPath: controlPlane.kubeconfigPath,
    namespace: setting.namespace,
    replica: 'one',
    opsPort: await freePort(),
    logPath: join(folder, 'controller.log'),
    settings: { ...exitingAt(`/${DEADLY}`), DAVIT_WAIT_SCALE: String(WAIT_SCALE) },
  })
  controller = process
  void process.exited.then(async () => {
    if (controller !== process) return
    ends += 1
    if (ends < MOST_STARTS) await start()
  })
  await process.readyOrEnded()
}

async function publish(n: number): Promise<void> {
  await publishNumber(setting.api, setting.organization, n)
}

async function shown() {
  const { items } = await setting.api.list(webhookDeliveries, { namespace: setting.organization })
  return items.map((raw) => webhookDelivery.parse(raw)).find(({ spec }) => spec.endpoint === DEADLY)
}

test(
  'is set aside alone after at most six ends, and all others arrive',
  async () => {
    await start()
    await publish(0)
    const aside = await until(
      async () => {
        const one = await shown()
        return one?.status?.state === 'retrying' ? one : undefined
      },
      () => `no delivery was set aside after ${ends} ends`,
      LIMIT_MS - 30_000,
    )
    const endsBefore = ends
    expect(endsBefore).toBeLessThanOrEqual(MOST_ENDS)
    expect(aside.status?.attemptCount).toBe(1)
    for (const name of OTHERS) await receiver.waitFor(1, { path: `/${name}` })
    expect(receiver.received(`/${DEADLY}`)).toEqual([])
    tellFigures('deadly-delivery', {
      'ends before it was set aside': endsBefore,
      'ends until all others had arrived': ends,
      others: OTHERS.length,
      'others that arrived': OTHERS.filter((name) => receiver.received(`/${name}`).length > 0).length,
    })
    const current = controller
    controller = undefined
    await current?.kill()
  },
  LIMIT_MS,
)
