import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Receiver, startReceiver } from './receiver.ts'

const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`
const OLD = `whsec_${Buffer.alloc(32, 2).toString('base64')}`
const BODY = '{"type":"order.paid","timestamp":"2026-03-01T00:00:00.000Z","data":{"n":1}}'
const ID = 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z'

let receiver: Receiver
let lines: string[]
let secrets: () => Promise<readonly string[]>

beforeEach(async () => {
  lines = []
  secrets = async () => [SECRET]
  const options = { host: '127.0.0.1', port: 0, secrets: () => secrets() }
  receiver = await startReceiver({ ...options, print: (line) => lines.push(line) })
})

afterEach(() => receiver.close())

type Sent = { body?: string; secret?: string; at?: Date; id?: string; headers?: Record<string, string> }

async function send({ body = BODY, secret = SECRET, at = new Date(), id = ID, headers }: Sent = {}) {
  const signature = new Webhook(secret).sign(id, at, body)
  const signed = {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': signature,
  }
  const url = `http://127.0.0.1:${receiver.port}/hooks`
  const response = await fetch(url, { method: 'POST', body, headers: headers ?? signed })
  return response.status
}

test('a delivery that is signed with an active secret is verified', async () => {
  secrets = async () => [SECRET, OLD]
  expect(await send()).toBe(204)
  expect(await send({ secret: OLD, id: 'msg_other' })).toBe(204)
  expect(lines).toEqual([
    `verified order.paid ${ID} ${BODY.length} bytes`,
    `verified order.paid msg_other ${BODY.length} bytes`,
  ])
})

test('a delivery that comes again says so', async () => {
  await send()
  await send()
  expect(lines[1]).toBe(`verified order.paid ${ID} ${BODY.length} bytes, received 2 times`)
})

test.each<{ what: string; sent: Sent; code: number; line: RegExp }>([
  { what: 'another secret', sent: { secret: OLD }, code: 401, line: /^not verified msg_\w+: No matching/ },
  {
    what: 'an old timestamp',
    sent: { at: new Date(Date.now() - 600_000) },
    code: 401,
    line: /^not verified msg_\w+: Message timestamp too old/,
  },
  { what: 'no headers', sent: { headers: {} }, code: 401, line: /^not verified without webhook-id: Missing/ },
  {
    what: 'a body that is too large',
    sent: { body: 'x'.repeat(1_100_000) },
    code: 413,
    line: /^rejected: .*larger/,
  },
  { what: 'a body without a type', sent: { body: '[]' }, code: 204, line: /^verified without type msg_/ },
])('$what is answered with $code', async ({ sent, code, line }) => {
  expect(await send(sent)).toBe(code)
  expect(lines).toEqual([expect.stringMatching(line)])
})

test('an id that contains control characters stays on its line', async () => {
  await send({ id: 'msg_\t\u001B[31m', headers: { 'webhook-id': 'msg_\t[31m' } })
  expect(lines.join()).not.toMatch(/\p{Cc}/u)
})

test('without a secret it asks for a retry', async () => {
  secrets = async () => []
  expect(await send()).toBe(503)
  secrets = () => Promise.reject(new Error('ENOENT: no such file'))
  expect(await send()).toBe(503)
  expect(lines).toEqual([
    `not verified ${ID}: there is no signing secret yet`,
    `not verified ${ID}: ENOENT: no such file`,
  ])
})

test('a GET is answered, for probes', async () => {
  const response = await fetch(`http://127.0.0.1:${receiver.port}/`)
  expect([response.status, await response.text()]).toEqual([200, 'ready\n'])
  expect(lines).toEqual([])
})
