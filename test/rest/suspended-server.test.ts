/**
 * A replica of the REST server that was suspended for longer than its lease: the others have not waited for it, so it must not
 * decide on its old state.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EVENTS, type FrontedServer, HOOKS, startFrontedServer } from '../support/fronted-server.ts'
import type { ServerProcess } from '../support/installation.ts'
import { ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'
const settings = { DAVIT_LEASE_DURATION: '3s' }

let bed: FrontedServer
/** Another process, with nothing before its API server. */
let other: ServerProcess

beforeAll(async () => {
  bed = await startFrontedServer(settings)
  other = await bed.startAnother(settings)
}, 240_000)

afterAll(() => bed?.stop())

async function publishAt(server: Pick<ServerProcess, 'baseUrl'>) {
  const body = JSON.stringify({ type: TYPE, data: {} })
  return await ask(server, EVENTS, { method: 'POST', key: bed.key, body })
}

test('it publishes nothing until it has read endpoints anew, though its Lease is renewed at once', async () => {
  const made = await bed.post(HOOKS, { url: 'https://127.0.0.1/hook', eventTypes: [TYPE] })
  const hook = made.location
  expect((await publishAt(bed.server)).json.deliveries).toBe(1)
  // What its watch has to say stays unread, and so does the list that it asks for.
  const held = bed.front.holdWatches(({ path }) => path.endsWith('/webhookendpoints'))
  const gate = Promise.withResolvers<void>()
  bed.front.before(
    ({ isWatch, method, path }) => !isWatch && method === 'GET' && path.endsWith('/webhookendpoints'),
    () => gate.promise,
  )
  bed.server.process.suspend()
  const began = performance.now()
  const removed = await ask(other, hook, { method: 'DELETE', key: bed.key })
  expect(removed.status).toBe(204)
  expect(performance.now() - began).toBeGreaterThan(1000)
  bed.server.process.resume()
  const refused = await publishAt(bed.server)
  expect([refused.status, refused.json.code]).toEqual([503, 'overloaded'])
  expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  await until(
    async () => (await bed.server.process.gauge('davit_lease_held')) === 1 || undefined,
    () => 'its Lease is not renewed',
  )
  const stillRefused = await publishAt(bed.server)
  expect([stillRefused.status, stillRefused.json.detail]).toEqual([
    503,
    'The server is still loading endpoints. Retry the request.',
  ])
  expect(await bed.server.process.isReady()).toBe(false)
  gate.resolve()
  held.release()
  const published = await until(
    async () => {
      const answer = await publishAt(bed.server)
      return answer.status === 202 ? answer : undefined
    },
    () => 'nothing can be published any more',
  )
  expect(published.json.deliveries).toBe(0)
})

test('one whose Lease cannot be written refuses publishes before others stop waiting for it', async () => {
  const failing = bed.front.answer(
    ({ method, path }) => method === 'PATCH' && path.includes('/leases/'),
    'hang',
    Number.POSITIVE_INFINITY,
  )
  const refused = await until(
    async () => {
      const answer = await publishAt(bed.server)
      return answer.status === 503 ? answer : undefined
    },
    () => 'it publishes on',
  )
  expect(refused.json.detail).toBe('This API replica is temporarily out of sync. Retry the request.')
  const made = await ask(other, HOOKS, {
    method: 'POST',
    key: bed.key,
    body: JSON.stringify({ url: 'https://127.0.0.1/hook', eventTypes: [TYPE] }),
  })
  expect(made.status).toBe(201)
  failing()
  const published = await until(
    async () => {
      const answer = await publishAt(bed.server)
      return answer.status === 202 ? answer : undefined
    },
    () => 'nothing can be published any more',
  )
  expect(published.json.deliveries).toBe(1)
})
