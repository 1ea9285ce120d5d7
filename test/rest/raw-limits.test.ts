/**
 * The limits of a client of a real REST server: bytes, time, connections, requests. Each rejection says so, and when to retry.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Installation, type ServerProcess, startInstallation } from '../support/installation.ts'
import { ask, dial, type RawConnection } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'

const ORGANIZATION = 'acme'
const OTHER_ORGANIZATION = 'umbrella'
const OWNER = { namespace: ORGANIZATION, name: 'owner' }
const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
const BODY_BYTES = 256 * 1024
/** Of one organization: memory for bodies, which take two bytes for each of their own, and requests. */
const BYTES_IN_FLIGHT = 16 * 1024 * 1024
const REQUESTS = 500
const CONNECTIONS = 2000
/** For headers, and for a body. */
const PATIENCE_MS = 10_000
const LIMIT_MS = 120_000

let davit: Installation
let server: ServerProcess
let key: string
let otherKey: string

beforeAll(async () => {
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(OWNER.namespace, OWNER.name, 'davit-owner'))
  await davit.makeOrganization(OTHER_ORGANIZATION)
  otherKey = await davit.makeKey(await davit.makeAccount(OTHER_ORGANIZATION, 'owner', 'davit-owner'))
  server = await start()
}, 240_000)

afterAll(() => davit?.stop())

async function start(settings: Record<string, string> = {}): Promise<ServerProcess> {
  const started = await davit.startServer({ settings })
  await started.process.untilReady()
  await untilLetIn({ server: started, organization: ORGANIZATION, owner: key })
  return started
}

/** The first lines of a request that makes an endpoint. */
function headOf(more: string[]): string {
  const own = [`Authorization: ${key}`, 'Host: x', 'Content-Type: application/json']
  return [`POST ${HOOKS} HTTP/1.1`, ...own, ...more, '', ''].join('\r\n')
}

/** The body of a request that is good, with blanks up to so many bytes. */
function bodyOf(path: string, bytes: number): string {
  return JSON.stringify({ url: `https://127.0.0.1/${path}`, eventTypes: ['*'] }).padEnd(bytes, ' ')
}

async function refusalOn(connection: RawConnection): Promise<{ status: number; text: string }> {
  const text = await connection.until('requestId')
  return { status: Number(text.split(' ')[1]), text }
}

async function settled(): Promise<void> {
  await until(
    async () => (await server.process.gauge('davit_http_requests_in_flight')) === 0 || undefined,
    () => 'requests are left',
  )
}

describe('a body', () => {
  test('of 256 KiB is taken, and of one byte more is not', async () => {
    const post = (bytes: number) =>
      ask(server, HOOKS, { method: 'POST', key, body: bodyOf(`bytes-${bytes}`, bytes) })
    expect((await post(BODY_BYTES)).status).toBe(201)
    const refused = await post(BODY_BYTES + 1)
    expect([refused.status, refused.json.code]).toEqual([413, 'body_too_large'])
  })

  test('that is announced to be larger is refused before any of it comes', async () => {
    const connection = await dial(server)
    connection.write(headOf([`Content-Length: ${BODY_BYTES + 1}`]))
    expect(await refusalOn(connection)).toMatchObject({ status: 413 })
  })

  test('that grows beyond it is refused while it comes', async () => {
    const connection = await dial(server)
    const began = performance.now()
    connection.write(headOf(['Transfer-Encoding: chunked']))
    const piece = 64 * 1024
    for (let sent = 0; sent <= BODY_BYTES; sent += piece)
      connection.write(`${piece.toString(16)}\r\n${'a'.repeat(piece)}\r\n`)
    // Its last chunk never comes.
    const { status, text } = await refusalOn(connection)
    expect(status).toBe(413)
    expect(text).toContain('"code":"body_too_large"')
    expect(performance.now() - began).toBeLessThan(PATIENCE_MS / 2)
  })

  test.each([
    { what: 'beyond 16 MiB', announced: BODY_BYTES, count: BYTES_IN_FLIGHT / (2 * BODY_BYTES) },
    { what: 'beyond those of 500 requests', announced: 1000, count: REQUESTS },
  ])(
    '$what of an organization is turned away, others go on, and clients that go make room',
    async ({ announced, count }) => {
      await settled()
      const connections: RawConnection[] = []
      while (connections.length < count) {
        const left = Math.min(100, count - connections.length)
        connections.push(...(await Promise.all(Array.from({ length: left }, () => dial(server)))))
      }
      for (const connection of connections) connection.write(`${headOf([`Content-Length: ${announced}`])}{`)
      await until(
        async () => (await server.process.gauge('davit_http_requests_in_flight')) === count || undefined,
        () => 'not all have arrived',
      )
      const post = () => ask(server, HOOKS, { method: 'POST', key, body: bodyOf('room', 200) })
      const refused = await post()
      expect([refused.status, refused.json.code]).toEqual([503, 'overloaded'])
      expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
      const others = `/organizations/${OTHER_ORGANIZATION}/webhooks`
      await untilLetIn({ server, organization: OTHER_ORGANIZATION, owner: otherKey })
      const body = bodyOf('others', 200)
      expect((await ask(server, others, { method: 'POST', key: otherKey, body })).status).toBe(201)
      for (const connection of connections) connection.close()
      await settled()
      expect((await post()).status).toBe(201)
    },
  )
})

describe('drop by drop', () => {
  /** Sends a byte now and then, until the connection ends. @returns the answer, and its time */
  async function drip(first: string, drop: string) {
    const connection = await dial(server)
    const began = performance.now()
    connection.write(first)
    const dripping = setInterval(() => connection.write(drop), 500)
    try {
      const { status, text } = await refusalOn(connection)
      return { status, text, ms: performance.now() - began, closed: connection.untilClosed() }
    } finally {
      clearInterval(dripping)
    }
  }

  test.concurrent.each([
    { what: 'headers come', first: `GET ${HOOKS} HTTP/1.1\r\nHost: x\r\nX-Slow: `, drop: 'a' },
    { what: 'a body comes', first: '', drop: ' ' },
  ])('$what for ten seconds, until 408 is answered', async ({ first, drop }) => {
    const { status, text, ms, closed } = await drip(first || headOf(['Content-Length: 1000']), drop)
    expect(status).toBe(408)
    expect(text).toContain('"code":"request_timeout"')
    expect(ms).toBeGreaterThan(PATIENCE_MS - 1000)
    expect(ms).toBeLessThan(2 * PATIENCE_MS)
    await closed
  })
})

test(
  'beyond 2,000 connections the one that has been idle for longest is closed',
  async () => {
    await settled()
    const sockets: Socket[] = []
    try {
      while (sockets.length < CONNECTIONS) {
        const some = Array.from({ length: 100 }, () => connect(server.port, '127.0.0.1'))
        sockets.push(...some)
        await Promise.all(some.map((socket) => once(socket, 'connect')))
      }
      const request = `GET ${HOOKS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\n\r\n`
      const [first, second] = sockets
      if (!first || !second) throw new Error('there are no connections')
      first.write(request)
      expect(String(await once(first, 'data'))).toMatch(/^HTTP\/1\.1 200 /)
      const closed = once(second.resume(), 'close')
      const another = await dial(server)
      another.write(request)
      expect(await another.until('endpoints')).toMatch(/^HTTP\/1\.1 200 /)
      await closed
      first.write(request)
      expect(String(await once(first, 'data'))).toMatch(/^HTTP\/1\.1 200 /)
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  },
  LIMIT_MS,
)

test(
  'a key that asks too often waits, and so does an organization, whoever asks, and nobody else',
  async () => {
    const slow = await start({ DAVIT_MAX_REQUESTS_PER_KEY: '5', DAVIT_MAX_REQUESTS_PER_ORGANIZATION: '8' })
    const burst = async (of: string, times: number) =>
      await Promise.all(Array.from({ length: times }, () => ask(slow, HOOKS, { key: of })))
    const check = (answers: Awaited<ReturnType<typeof burst>>) => {
      const refused = answers.filter(({ status }) => status === 429)
      expect(refused.length).toBeGreaterThan(1)
      for (const { json, headers } of refused) {
        expect(json.code).toBe('rate_limited')
        expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
      }
      expect(answers.filter(({ status }) => status === 200)).not.toEqual([])
    }
    check(await burst(key, 60))
    // None of these asks more often than a key may, and all of them more often than the organization.
    const others = await Promise.all(Array.from({ length: 15 }, () => davit.makeKey(OWNER)))
    check((await Promise.all(others.map((one) => burst(one, 4)))).flat())
    await untilLetIn({ server: slow, organization: OTHER_ORGANIZATION, owner: otherKey })
  },
  LIMIT_MS,
)
