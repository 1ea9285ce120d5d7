/** What the answer to a deletion over REST promises of the controller (design/guarantees, "no send after disable or delete"). */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt } from '../support/drive.ts'
import { lateWatches } from '../support/late-watches.ts'
import { type LiveServer, startLiveServer } from '../support/live-server.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

/** What the controller's watch of endpoints is behind. */
let lateMs = 0
let receiver: Receiver
let davit: TestDavit
let server: LiveServer

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('deletion-in-force', {
    wrapApi: (api) => lateWatches(api, webhookEndpoints, () => lateMs),
  })
  server = await startLiveServer(davit)
})

afterAll(async () => {
  await server?.stop()
  await davit?.stop()
  await receiver?.close()
})

/** An endpoint with a delivery that waits for its second attempt. */
async function retrying(path: string) {
  receiver.answer(path, { status: 503 })
  const type = await ownEventType(davit)
  await until(
    async () => server.catalogue.get(type),
    () => 'the REST server does not see the type',
  )
  const draft = { url: receiver.url + path, eventTypes: [type] }
  const { endpoint } = await server.endpoints.create(davit.organization, draft, {})
  await server.publishing.publish(davit.organization, { type, dataText: '{}' }, {})
  const name = endpoint.endpointId.slice('whe_'.length)
  await driveToAttempt(davit, name, 1)
  // A status that is written later meets the changed endpoint, so the controller would learn of the change without its watch.
  await davit.endpointWhen(name, ({ status }) => status?.lastAttempt !== undefined)
  return { organization: davit.organization, endpointId: endpoint.endpointId }
}

test('nothing is sent after it, however late the controller sees that the endpoint is gone', async () => {
  const id = await retrying('/late')
  lateMs = 1500
  const began = performance.now()
  await server.endpoints.remove(id, {})
  expect(performance.now() - began).toBeGreaterThan(lateMs * 0.9)
  // Now the second attempt would be due.
  davit.clock.jump(3_600_000)
  await retrying('/other')
  expect(receiver.received('/late')).toHaveLength(1)
})

test('a controller that sees nothing for five seconds is not waited for: the endpoint is gone, and the answer says so', async () => {
  lateMs = 0
  const id = await retrying('/blind')
  lateMs = 20_000
  await expect(server.endpoints.remove(id, {})).rejects.toMatchObject({ code: 'not_acknowledged' })
  lateMs = 0
  await expect(server.endpoints.get(id)).rejects.toMatchObject({ code: 'not_found' })
})
