import { afterEach, expect, test } from 'vitest'
import { onRequest, type RawReceiver, startRawReceiver } from '../../test/support/receiver-raw.ts'
import { createTestAuthority } from '../../test/support/tls.ts'
import { createTrust } from './dial.ts'
import { httpRequest } from './http.ts'

const authority = createTestAuthority()
const tls = authority.issue(['localhost'])
const trust = createTrust(authority.ca, false)

const toClose: RawReceiver[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

test.each([
  { name: 'a plain one', bytes: OK },
  { name: '100 before it', bytes: `HTTP/1.1 100 Continue\r\n\r\n${OK}` },
  { name: '102 that announces a close before it', bytes: `HTTP/1.1 102 X\r\nconnection: close\r\n\r\n${OK}` },
  {
    name: 'a continued field',
    bytes: 'HTTP/1.1 200 OK\r\nwww-authenticate: a,\r\n b\r\ncontent-length: 2\r\n\r\nok',
  },
])('a server of a registry may send what a receiver may: $name', async ({ bytes }) => {
  const server = await startRawReceiver((socket) => onRequest(socket, (one) => void one.write(bytes)), {
    tls,
  })
  toClose.push(server)
  const response = await httpRequest(new URL(`${server.url}/v2/`), {
    method: 'GET',
    trust,
    userAgent: 'davit/test',
    permits: (kind) => kind === 'loopback',
    accept: '*/*',
    maxBytes: 1024,
    signal: AbortSignal.timeout(10_000),
  })
  expect(response.status).toBe(200)
  expect(response.body.toString()).toBe('ok')
})
