/** What does not fit, byte by byte: requests as no usual client sends them, and bodies that are too much. */
import { expect, test } from 'vitest'
import { ask, dial, KEYS, ORGANIZATION, startServerBed } from '../../../test/support/server-bed.ts'
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
  const bed = await startServerBed({ limits: { bytesInFlight: 1_000 } })
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
