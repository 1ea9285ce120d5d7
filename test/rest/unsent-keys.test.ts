/** Two REST servers and one key: the first does not know the endpoint yet, the other has not seen the first one's append yet. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ApiFront, FrontRequest } from '../support/api-front.ts'
import { EVENTS, type FrontedServer, HOOKS, startFrontedServer } from '../support/fronted-server.ts'
import type { ServerProcess } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'

let bed: FrontedServer
let receiver: Receiver
let otherFront: ApiFront
let other: ServerProcess

beforeAll(async () => {
  receiver = await startReceiver()
  bed = await startFrontedServer()
  await (await bed.davit.startController()).untilReady()
  ;({ front: otherFront, server: other } = await bed.startBehindFront())
}, 240_000)

afterAll(async () => {
  await bed?.stop()
  await otherFront?.stop()
  await receiver?.close()
})

const isAppend = ({ method, path }: FrontRequest) => method === 'POST' && path.endsWith('/deliverysegments')

function publish(at: ServerProcess, idempotencyKey?: string) {
  const headers: Record<string, string> =
    idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
  const body = JSON.stringify({ type: TYPE, data: {} })
  return ask(at, EVENTS, { method: 'POST', key: bed.key, headers, body })
}

test('an event that nobody gets makes later places of its key repeats', async () => {
  const endpoints = bed.front.holdWatches(({ path }) => path.endsWith('/webhookendpoints'))
  const body = JSON.stringify({ url: `${receiver.url}/late`, eventTypes: [TYPE] })
  // It stands, though the one whose watch is held never says that it has seen it.
  const made = await ask(other, HOOKS, { method: 'POST', key: bed.key, body })
  expect([made.status, made.json.code]).toEqual([503, 'not_acknowledged'])
  const log = otherFront.holdWatches(({ path }) => path.endsWith('/deliverysegments'))
  const unsent = await publish(bed.server, 'one')
  expect([unsent.status, unsent.json.deliveries]).toEqual([202, 0])
  const before = otherFront.requests.filter(isAppend).length
  const behind = publish(other, 'one')
  await until(
    async () => otherFront.requests.filter(isAppend).length > before || undefined,
    () => 'the other one does not append',
  )
  log.release()
  const repeated = await behind
  expect([repeated.status, repeated.headers.get('idempotency-replayed')]).toEqual([202, 'true'])
  expect(repeated.json).toEqual(unsent.json)
  endpoints.release()
  // The next request, at either of them, gets the same answer; a request without such a key is sent.
  for (const server of [bed.server, other]) expect((await publish(server, 'one')).json).toEqual(unsent.json)
  const { json } = await publish(other)
  const requests = await receiver.waitFor(1, { path: '/late' })
  expect(requests.map(({ headers }) => headers['webhook-id'])).toEqual([json.eventId])
})
