/** The store is restored from a backup while controllers run: the versions that they know are assigned again. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { sortableName } from '../../src/apis/ids.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import { segmentSpec } from '../../src/webhooks/log/codec.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type ShiftedVersions, shiftedVersions } from '../support/shifted-versions.ts'
import { until } from '../support/until.ts'

const AHEAD = 1_000_000

let davit: TestDavit
let receiver: Receiver
const stores: ShiftedVersions[] = []

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('set-back', {
    wrapApi: (inner) => {
      const store = shiftedVersions(inner, stores.length === 0 ? AHEAD : 0)
      stores.push(store)
      return store.api
    },
  })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** Like a REST server that has answered with 202. */
async function accept(endpoint: { name: string; uid: string }): Promise<void> {
  const acceptedAt = davit.clock.now()
  const name = () => sortableName(acceptedAt, randomBytes(10))
  const event = acceptEvent(
    {
      name: name(),
      namespace: davit.organization,
      type: 'environment.started',
      dataText: '{"after":1}',
      happenedAt: acceptedAt,
    },
    [endpoint],
  )
  await davit.api.create(deliverySegments, {
    apiVersion: API_VERSION,
    kind: 'DeliverySegment',
    metadata: { name: name(), namespace: davit.namespace },
    spec: segmentSpec([event], 'another', acceptedAt),
  })
}

test('a running replica ends, and its next start delivers what was accepted since', async () => {
  const { endpoint } = await davit.endpoint('one', { url: `${receiver.url}/one` })
  await davit.publish('environment.started', { before: 1 })
  await driveToEnd(davit, 'one')
  const { segments } = davit.controller.webhooks.engine.ctx
  await until(
    async () => segments.lowWater > AHEAD || undefined,
    () => 'the mark does not move',
  )
  let why = ''
  void davit.controller.ended.catch((error: Error) => {
    why = error.message
  })
  stores[0]?.setBack()
  await accept({ name: endpoint.metadata.name, uid: endpoint.metadata.uid })
  await until(
    async () => why || undefined,
    () => 'the controller goes on',
  )
  expect(why).toContain('the API server returned older data than before')
  await davit.restart()
  await until(
    async () => receiver.received('/one').some(({ body }) => String(body).includes('"after"')) || undefined,
    () => 'what was accepted was not delivered',
  )
})
