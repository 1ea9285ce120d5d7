import type { Server } from 'node:http'
import { expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { ask, dial, KEYS, ORGANIZATION, startServerBed } from '../../../test/support/server-bed.ts'
import { idIn } from '../../../test/support/server-services.ts'

const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
const HEAD = `POST ${HOOKS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\nContent-Type: application/json\r\n`

test('headers that do not come to an end are answered with 408, and the connection ends', async () => {
  const bed = await startServerBed({ server: { headersMs: 50, requestMs: 60, checkMs: 20 } })
  const connection = await dial(bed)
  connection.write(`GET ${HOOKS} HTTP/1.1\r\nHost: x\r\n`)
  const answer = await connection.untilClosed()
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(answer).toContain('"code":"request_timeout"')
})

test('a body that does not come to an end is answered with 408', async () => {
  const clock = new FakeClock()
  const bed = await startServerBed({ clock })
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
  const bed = await startServerBed({ clock, limits: { requests: 1, bytesInFlight: 300 } })
  const connection = await dial(bed)
  connection.write(`${HEAD}Content-Length: 100\r\n\r\n{"url":`)
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve))
  connection.close()
  while (bed.answered.length === 0) await new Promise((resolve) => setImmediate(resolve))
  expect(clock.pending).toBe(0)
  const body = JSON.stringify({ url: 'https://example.com/', eventTypes: ['*'] })
  expect((await ask(bed, HOOKS, { method: 'POST', key: KEYS.owner, body })).status).toBe(201)
})

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))
const BODY = JSON.stringify({ url: 'https://example.com/', eventTypes: ['*'] })

/** A reviewer that answers when the test lets it. */
function holding() {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const asked: string[] = []
  const identity = { username: 'owner', uid: '', groups: [], extra: {} }
  return {
    release: () => release(),
    asked,
    tokens: {
      async review(token: string) {
        asked.push(token)
        await held
        return identity
      },
    },
    access: {
      async allowed({ username }: { username: string }) {
        asked.push(username)
        await held
        return true
      },
    },
  }
}

test.each([['tokens' as const], ['access' as const]])(
  'a client that goes away while its %s are reviewed leaves nothing behind, and nothing is done for it',
  async (which) => {
    const reviews = holding()
    const limits = { requests: 1, bytesInFlight: 300 }
    const bed = await startServerBed({ limits, [which]: reviews[which] })
    const connection = await dial(bed)
    connection.write(`${HEAD}Content-Length: 100\r\n\r\n`)
    while (reviews.asked.length === 0) await nextTurn()
    connection.close()
    while ((await connectionsOf(bed.server)) > 0) await nextTurn()
    // Until the review has ended its place is taken.
    expect((await ask(bed, HOOKS, { key: KEYS.owner })).status).toBe(503)
    reviews.release()
    while (bed.answered.at(-1)?.status !== 499) await nextTurn()
    expect((await ask(bed, HOOKS, { method: 'POST', key: KEYS.owner, body: BODY })).status).toBe(201)
    expect(bed.services.asked).toHaveLength(1)
  },
)

test('a change is not begun for a client that has gone', async () => {
  const reviews = holding()
  const bed = await startServerBed({ access: reviews.access })
  const connection = await dial(bed)
  connection.write(
    `POST ${HOOKS}/${idIn(ORGANIZATION)}/ping HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\nContent-Length: 0\r\n\r\n`,
  )
  while (reviews.asked.length === 0) await nextTurn()
  connection.end()
  while ((await connectionsOf(bed.server)) > 0) await nextTurn()
  reviews.release()
  while (bed.answered.length === 0) await nextTurn()
  expect(bed.answered).toEqual([{ route: 'pingEndpoint', status: 499 }])
  expect(bed.services.asked).toEqual([])
})

test('a change whose client has gone is told when it is done, and not as answered', async () => {
  const bed = await startServerBed()
  let release = () => {}
  bed.services.hold = new Promise<void>((resolve) => {
    release = resolve
  })
  const connection = await dial(bed)
  connection.write(
    `DELETE ${HOOKS}/${idIn(ORGANIZATION)} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\n\r\n`,
  )
  while (bed.services.asked.length === 0) await nextTurn()
  connection.end()
  while ((await connectionsOf(bed.server)) > 0) await nextTurn()
  expect(bed.logged).toEqual([])
  release()
  while (bed.logged.length === 0) await nextTurn()
  expect(bed.logged).toMatchObject([
    { message: 'handled change request', fields: { route: 'deleteEndpoint', caller: 'owner', status: 499 } },
  ])
  expect(bed.answered).toEqual([{ route: 'deleteEndpoint', status: 499 }])
})

test('requests that wait behind another one on a connection that ends leave nothing behind', async () => {
  const bed = await startServerBed({ limits: { requests: 3 } })
  let release = () => {}
  bed.services.hold = new Promise<void>((resolve) => {
    release = resolve
  })
  const connection = await dial(bed)
  const request = `GET ${HOOKS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\n\r\n`
  connection.write(request + request + request)
  while (bed.services.asked.length < 3) await nextTurn()
  connection.close()
  while ((await connectionsOf(bed.server)) > 0) await nextTurn()
  release()
  while (bed.answered.length < 3) await nextTurn()
  expect(bed.answered.map(({ status }) => status)).toEqual([499, 499, 499])
  expect((await ask(bed, HOOKS, { key: KEYS.owner })).status).toBe(200)
})

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
  })
}

test('requests that come one after the other on a connection are answered in order', async () => {
  const bed = await startServerBed()
  const connection = await dial(bed)
  const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\n\r\n`
  connection.write(request(HOOKS) + request('/nothing') + request(`${HOOKS}/event-types`))
  const answer = await connection.until('eventTypes')
  expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200'])
})
