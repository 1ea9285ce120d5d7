/** What does not fit, byte by byte: requests as no usual client sends them, and bodies that are too much. */
import type { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import {
  ask,
  dial,
  KEYS,
  ORGANIZATION,
  OTHER_ORGANIZATION,
  startServerBed,
} from '../../../test/support/server-bed.ts'
import { idIn } from '../../../test/support/server-services.ts'

const ORG = `/organizations/${ORGANIZATION}`
const HOOKS = `${ORG}/webhooks`
const key = KEYS.owner
const JSON_TYPE = 'application/json'

/** Requests as no client of Node would send them. */
const RAW: { what: string; head: string[]; body?: string; want: [number, string] }[] = [
  { what: 'dot segments', head: [`GET ${ORG}/webhooks/../webhooks HTTP/1.1`], want: [404, 'not_found'] },
  {
    what: 'escaped dot segments',
    head: [`GET ${ORG}/webhooks/%2e%2e/webhooks HTTP/1.1`],
    want: [404, 'not_found'],
  },
  { what: 'bytes that are no ASCII', head: [`GET ${HOOKS}/whe_\u00e9 HTTP/1.1`], want: [400, 'bad_request'] },
  { what: 'an absolute form', head: [`GET http://x${HOOKS} HTTP/1.1`], want: [400, 'bad_request'] },
  {
    what: 'Authorization twice',
    head: [`GET ${HOOKS} HTTP/1.1`, `Authorization: ${key}`, `Authorization: ${key}`],
    want: [400, 'bad_request'],
  },
  {
    what: 'a control character in a header',
    head: [`GET ${HOOKS} HTTP/1.1`, 'Authorization: a\u0001b'],
    want: [400, 'bad_request'],
  },
  {
    what: 'headers of 1 MB',
    head: [`GET ${HOOKS} HTTP/1.1`, `Authorization: ${'a'.repeat(1024 * 1024)}`],
    want: [431, 'headers_too_large'],
  },
  {
    what: 'an expectation of another kind',
    head: [`GET ${HOOKS} HTTP/1.1`, 'Expect: tea'],
    want: [400, 'bad_request'],
  },
  { what: 'no HTTP', head: ['hello'], want: [400, 'bad_request'] },
  {
    what: 'two lengths',
    head: [`POST ${HOOKS} HTTP/1.1`, 'Content-Length: 2', 'Content-Length: 3'],
    want: [400, 'bad_request'],
  },
  {
    what: 'length and chunks',
    head: [`POST ${HOOKS} HTTP/1.1`, 'Content-Length: 2', 'Transfer-Encoding: chunked'],
    want: [400, 'bad_request'],
  },
  {
    what: 'an announced body of 10 GB',
    head: [
      `POST ${HOOKS} HTTP/1.1`,
      `Authorization: ${key}`,
      `Content-Type: ${JSON_TYPE}`,
      'Content-Length: 10737418240',
    ],
    want: [413, 'body_too_large'],
  },
  {
    what: 'bytes that are no UTF-8',
    head: [
      `POST ${HOOKS} HTTP/1.1`,
      `Authorization: ${key}`,
      `Content-Type: ${JSON_TYPE}`,
      'Content-Length: 4',
    ],
    body: '"\u00ff\u00fe"',
    want: [400, 'bad_json'],
  },
]

test.each(RAW)('$what: $want.1', async ({ head, body, want }) => {
  const bed = await startServerBed()
  const connection = await dial(bed)
  const hasKey = head.some((line) => line.startsWith('Authorization'))
  connection.write(
    [...head, 'Host: x', ...(hasKey ? [] : [`Authorization: ${key}`]), '', body ?? ''].join('\r\n'),
  )
  const answer = await connection.until('requestId')
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${want[0]} `))
  expect(answer).toContain(`"code":"${want[1]}"`)
  expect(bed.services.asked).toEqual([])
})

test('without Host the answer is what it is with it', async () => {
  const connection = await dial(await startServerBed())
  connection.write(`GET ${HOOKS} HTTP/1.1\r\nAuthorization: ${key}\r\n\r\n`)
  expect(await connection.until('endpoints')).toMatch(/^HTTP\/1\.1 200 /)
})

test('no chunks are no body, and need no type', async () => {
  const bed = await startServerBed()
  const connection = await dial(bed)
  connection.write(
    `POST ${HOOKS}/${idIn(ORGANIZATION)}/ping HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  )
  expect(await connection.until('webhookId')).toMatch(/^HTTP\/1\.1 202 /)
})

test('chunks without a type are refused', async () => {
  const bed = await startServerBed()
  const connection = await dial(bed)
  connection.write(
    `POST ${HOOKS}/${idIn(ORGANIZATION)}/ping HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  )
  expect(await connection.until('requestId')).toMatch(/^HTTP\/1\.1 415 /)
  expect(bed.services.asked).toEqual([])
})

test('a body that grows beyond the limit is refused while it comes, and the client reads the answer', async () => {
  const bed = await startServerBed()
  const connection = await dial(bed)
  connection.write(
    `POST ${HOOKS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Type: ${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  )
  const chunk = `10000\r\n${'a'.repeat(0x10000)}\r\n`
  for (let sent = 0; sent < 5; sent += 1) connection.write(chunk)
  expect(await connection.until('requestId')).toMatch(/^HTTP\/1\.1 413 /)
  for (let sent = 0; sent < 20; sent += 1) connection.write(chunk)
  await connection.untilClosed()
})

test('bodies together have a limit, and their room comes back', async () => {
  const bed = await startServerBed({ limits: { bytesInFlight: 4_000 } })
  let release = () => {}
  bed.services.hold = new Promise<void>((resolve) => {
    release = resolve
  })
  const event = { method: 'POST', key, body: JSON.stringify({ type: 'a.b', data: 'a'.repeat(600) }) }
  const first = ask(bed, `${ORG}/events`, event)
  while (bed.services.asked.length === 0) await new Promise((resolve) => setImmediate(resolve))
  expect((await ask(bed, `${ORG}/events`, event)).json).toMatchObject({ code: 'overloaded' })
  release()
  expect((await first).status).toBe(202)
  expect((await ask(bed, `${ORG}/events`, event)).status).toBe(202)
})

const HEAD = `POST ${HOOKS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Type: ${JSON_TYPE}\r\n`
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`
const ENDPOINT = JSON.stringify({ url: 'https://example.com/', eventTypes: ['*'] })
const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

/** The body with blanks before it, in chunks. */
function chunksOf(bytes: number, each: number): string {
  const chunks = ENDPOINT.padStart(bytes, ' ').match(new RegExp(`.{1,${each}}`, 'g')) ?? []
  return `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`
}

/** Bytes in use after a collection. */
function memoryUsed(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

describe('small chunks', () => {
  test.each([
    { what: 'a thousand chunks of one byte', bytes: 1_000, each: 1 },
    { what: '256 KiB in chunks of 64 bytes', bytes: 256 * 1024, each: 64 },
  ])('$what are a body', async ({ bytes, each }) => {
    const connection = await dial(await startServerBed())
    connection.write(CHUNKED + chunksOf(bytes, each))
    expect(await connection.until('"secret"')).toMatch(/^HTTP\/1\.1 201 /)
  })

  test.each([
    { what: 'that end', rest: chunksOf(3_000, 1) },
    { what: 'that do not end', rest: '1\r\n \r\n'.repeat(3_000) },
    { what: 'that go on and on', rest: '1\r\n \r\n'.repeat(250_000) },
  ])('too many of one byte $what are refused, and the connection is closed', async ({ rest }) => {
    const bed = await startServerBed()
    const connection = await dial(bed)
    connection.write(CHUNKED + rest)
    const answer = await connection.until('requestId')
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer.toLowerCase()).toContain('connection: close')
    expect(answer).toContain('"code":"bad_request"')
    expect(answer).toContain('too many small chunks')
    await connection.untilClosed()
    expect(bed.services.asked).toEqual([])
  })
})

test.each([
  { what: 'chunks of one byte', head: CHUNKED, body: '1\r\n \r\n'.repeat(100_000) },
  {
    what: 'chunks of 64 bytes',
    head: CHUNKED,
    body: `40\r\n${' '.repeat(64)}\r\n`.repeat(4_000),
  },
])('until its client is authorized, a body in $what takes little memory', async ({ head, body }) => {
  const asked: string[] = []
  const tokens = {
    review: (token: string) => {
      asked.push(token)
      return new Promise<undefined>(() => undefined)
    },
  }
  const bed = await startServerBed({ tokens })
  const sockets: Socket[] = []
  bed.server.on('connection', (socket: Socket) => void sockets.push(socket))
  const connections = await Promise.all(Array.from({ length: 8 }, () => dial(bed)))
  for (const connection of connections) connection.write(head)
  const before = memoryUsed()
  while (sockets.some(({ bytesRead }) => bytesRead === 0)) await nextTurn()
  for (const connection of connections) connection.write(body)
  const bytesRead = () => sockets.reduce((sum, socket) => sum + socket.bytesRead, 0)
  for (let read = -1; read !== bytesRead(); ) {
    read = bytesRead()
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  expect(asked).toHaveLength(1)
  expect((memoryUsed() - before) / connections.length).toBeLessThan(256 * 1024)
})

test('a body without a length reserves all that it may become until it has come, of its organization only', async () => {
  // Text takes two bytes for each byte of a body.
  const bed = await startServerBed({ limits: { bytesPerOrganization: 2 * 2 * 256 * 1024 } })
  const slow = [await dial(bed), await dial(bed)]
  for (const connection of slow) connection.write(`${CHUNKED}1\r\n \r\n`)
  const post = (of: string, as: string) =>
    ask(bed, `/organizations/${of}/webhooks`, { method: 'POST', key: as, body: ENDPOINT })
  let refused = await post(ORGANIZATION, key)
  while (refused.status === 201) refused = await post(ORGANIZATION, key)
  expect([refused.status, refused.json.code]).toEqual([503, 'overloaded'])
  expect(refused.headers.get('retry-after')).toBe('1')
  expect((await post(OTHER_ORGANIZATION, KEYS.otherOwner)).status).toBe(201)
  for (const connection of slow) {
    connection.write(chunksOf(200, 100))
    expect(await connection.until('"secret"')).toMatch(/^HTTP\/1\.1 201 /)
  }
  expect((await post(ORGANIZATION, key)).status).toBe(201)
})

test('an event that waits takes no more memory than it has reserved, whatever its data would be as a value', async () => {
  const bed = await startServerBed()
  const hold = Promise.withResolvers<void>()
  bed.services.hold = hold.promise
  const body = `{"type":"a.b","data":[${'{},'.repeat(85_000)}{}]}`
  const publish = () => ask(bed, `${ORG}/events`, { method: 'POST', key, body })
  hold.resolve()
  await publish()
  const held = Promise.withResolvers<void>()
  bed.services.hold = held.promise
  const before = memoryUsed()
  const asked = bed.services.asked.length
  const events = 10
  const publishing = Array.from({ length: events }, publish)
  while (bed.services.asked.length < asked + events) await nextTurn()
  // The client is in this process, too.
  expect((memoryUsed() - before) / events).toBeLessThan(2 * 2 * body.length)
  held.resolve()
  expect((await Promise.all(publishing)).map(({ status }) => status)).toEqual(Array(events).fill(202))
})

test('a body that ends within a character leaves nothing behind for the next one', async () => {
  const bed = await startServerBed()
  const connection = await dial(bed)
  connection.write(`${HEAD}Content-Length: 3\r\n\r\n"\u00e2\u0082`)
  expect(await connection.until('requestId')).toMatch(/^HTTP\/1\.1 400 /)
  expect((await ask(bed, HOOKS, { method: 'POST', key, body: ENDPOINT })).status).toBe(201)
})
