import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { ask, dial, KEYS, ORGANIZATION, startFacade } from '../../test/support/facade-bed.ts'
import { FakeClock } from '../../test/support/fake-clock.ts'

const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
const HEAD = `POST ${HOOKS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\nContent-Type: application/json\r\n`

test('headers that do not come to an end are answered with 408, and the connection ends', async () => {
  const bed = await startFacade({ server: { headersMs: 50, requestMs: 60, checkMs: 20 } })
  const connection = await dial(bed)
  connection.write(`GET ${HOOKS} HTTP/1.1\r\nHost: x\r\n`)
  const answer = await connection.untilClosed()
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(answer).toContain('"code":"request_timeout"')
})

test('a body that does not come to an end is answered with 408', async () => {
  const clock = new FakeClock()
  const bed = await startFacade({ clock })
  const connection = await dial(bed)
  connection.write(`${HEAD}Content-Length: 100\r\n\r\n{"url":`)
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve))
  clock.advance(10_000)
  const answer = await connection.until('requestId')
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(clock.pending).toBe(0)
})

test('a body whose client goes away leaves nothing behind', async () => {
  const clock = new FakeClock()
  const bed = await startFacade({ clock, limits: { requests: 1, bytesInFlight: 150 } })
  const connection = await dial(bed)
  connection.write(`${HEAD}Content-Length: 100\r\n\r\n{"url":`)
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve))
  connection.close()
  while (bed.answered.length === 0) await new Promise((resolve) => setImmediate(resolve))
  expect(clock.pending).toBe(0)
  const body = JSON.stringify({ url: 'https://example.com/', eventTypes: ['*'] })
  expect((await ask(bed, HOOKS, { method: 'POST', key: KEYS.owner, body })).status).toBe(201)
})

test('a connection beyond the limit is told so and ends; those before go on', async () => {
  const bed = await startFacade({ server: { connections: 2 } })
  const sockets: Socket[] = []
  bed.server.on('connection', (socket) => sockets.push(socket))
  const request = `GET ${HOOKS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\n\r\n`
  const first = await dial(bed)
  first.write(request)
  await first.until('HTTP/1.1 200')
  const second = await dial(bed)
  second.write(request)
  await second.until('HTTP/1.1 200')
  const third = await dial(bed)
  third.write(request)
  const answer = await third.untilClosed()
  expect(answer).toMatch(/^HTTP\/1\.1 503 /)
  expect(answer).toMatch(/retry-after: 1/i)
  const gone = once(sockets[0] ?? raise(), 'close')
  first.close()
  await gone
  const fourth = await dial(bed)
  fourth.write(request)
  expect(await fourth.until('HTTP/1.1 ')).toMatch(/^HTTP\/1\.1 200 /)
})

test('requests that come one after the other on a connection are answered in order', async () => {
  const bed = await startFacade()
  const connection = await dial(bed)
  const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\n\r\n`
  connection.write(request(HOOKS) + request('/nothing') + request(`${HOOKS}/event-types`))
  const answer = await connection.until('eventTypes')
  expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200'])
})

function raise(): never {
  throw new Error('there is no such connection')
}
