/**
 * Clients that try to use up a REST server as installed: its memory with bodies, its reviews with invalid tokens, its connections with idle
 * ones. It stays small, and clients of another organization are served meanwhile.
 */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { peakResidentBytes, residentBytes } from '../bench/measure/process-usage.ts'
import { type Installation, type ServerProcess, startInstallation } from '../support/installation.ts'
import { ask, askAlone } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { type Figures, tellFigures } from './figures.ts'

const HOSTILE = 'acme'
const GOOD = 'umbrella'
const EVENTS = `/organizations/${HOSTILE}/events`
const HOOKS = `/organizations/${GOOD}/webhooks`
const CONNECTIONS = 64
const FLOOD_MS = 12_000
const IDLE = 10_000
/** Of a server that has just started. */
const CLIENTS = 40
const MOST_RESIDENT = 400 * 2 ** 20
/** Before a client of a flood begins again: it shares the cores with the server that it floods. */
const PAUSE_MS = 100
const LIMIT_MS = 150_000

let davit: Installation
let server: ServerProcess
let hostileKey: string
let goodKey: string
const figures: Figures = { connections: CONNECTIONS, 'seconds of each flood': FLOOD_MS / 1000 }

beforeAll(async () => {
  davit = await startInstallation()
  for (const name of [HOSTILE, GOOD]) await davit.makeOrganization(name)
  hostileKey = await davit.makeKey(await davit.makeAccount(HOSTILE, 'owner', 'davit-owner'))
  goodKey = await davit.makeKey(await davit.makeAccount(GOOD, 'owner', 'davit-owner'))
}, 240_000)

beforeEach(async () => {
  if (server) await server.process.kill()
  server = await davit.startServer()
  await server.process.untilReady()
  await untilLetIn({ server, organization: GOOD, owner: goodKey })
}, 240_000)

afterAll(async () => {
  tellFigures('rest-floods', figures)
  await davit?.stop()
})

const mb = (bytes: number) => Math.round(bytes / 2 ** 20)

function p99Of(times: readonly number[]): number {
  return Math.round(times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1] ?? 0)
}

/** A client of another organization, which asks ten times a second. */
async function goodClient(stop: AbortSignal) {
  const times: number[] = []
  const statuses: number[] = []
  while (!stop.aborted) {
    const began = performance.now()
    statuses.push(await askAlone(server, HOOKS, goodKey))
    times.push(performance.now() - began)
    await sleep(100)
  }
  return { p99: p99Of(times), statuses: [...new Set(statuses)] }
}

type Send = (write: (text: string) => Promise<void>, stop: AbortSignal) => Promise<void>

/** One connection after the other, each until it is closed. @param count counts answers by status */
async function hold(head: string, send: Send, stop: AbortSignal, count: (status: string) => void) {
  while (!stop.aborted) {
    const socket = connect(server.port, '127.0.0.1')
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    const ended = new AbortController()
    void closed.then(() => ended.abort())
    socket.on('error', () => undefined)
    socket.on('data', (data: Buffer) => {
      for (const [, status = ''] of data.toString('latin1').matchAll(/HTTP\/1\.1 (\d+)/g)) count(status)
    })
    const write = (text: string) =>
      new Promise<void>((resolve) => {
        if (socket.destroyed || socket.write(text, 'latin1')) return resolve()
        socket.once('drain', () => resolve())
        void closed.then(() => resolve())
      })
    await write(head)
    await send(write, AbortSignal.any([stop, ended.signal]))
    socket.destroy()
    await closed
    await sleep(PAUSE_MS)
  }
}

const BLANK = '1\r\n \r\n'

/** What never ends. */
const ONE_BYTE: Send = async (write, stop) => {
  while (!stop.aborted) await write(BLANK.repeat(10_000))
}
/** As many chunks of one byte as are let through, and then nothing. */
const ONE_BYTE_THEN_SILENCE: Send = async (write, stop) => {
  await write(BLANK.repeat(1_000))
  await sleep(FLOOD_MS, undefined, { signal: stop }).catch(() => undefined)
}
/** 256 KiB in ten seconds and more. */
const SLOW: Send = async (write, stop) => {
  for (let sent = 0; sent < 255 && !stop.aborted; sent += 1) {
    await write(' '.repeat(1024))
    await sleep(50, undefined, { signal: stop }).catch(() => undefined)
  }
}
const CHUNKED = 'Transfer-Encoding: chunked'
const WHOLE = `Content-Length: ${256 * 1024}`

describe('bodies', () => {
  test.each([
    { what: 'chunks of one byte', header: CHUNKED, send: ONE_BYTE, answers: ['400', '503'] },
    {
      what: 'a thousand chunks of one byte, and silence',
      header: CHUNKED,
      send: ONE_BYTE_THEN_SILENCE,
      answers: ['408', '503'],
    },
    { what: 'slow bodies of 256 KiB', header: WHOLE, send: SLOW, answers: ['408', '503'] },
    { what: 'chunks of one byte without a valid token', header: CHUNKED, send: ONE_BYTE, answers: ['401'] },
  ])(
    '64 connections with $what',
    async ({ what, header, send, answers }) => {
      const stop = AbortSignal.timeout(FLOOD_MS)
      const found: Record<string, number> = {}
      const key = answers.includes('401') ? hostileKey.replace(/.{9}$/, 'AAAAAAAAA') : hostileKey
      const fields = ['Host: x', `Authorization: ${key}`, 'Content-Type: application/json', header]
      const head = `${[`POST ${EVENTS} HTTP/1.1`, ...fields].join('\r\n')}\r\n\r\n`
      const count = (status: string) => {
        found[status] = (found[status] ?? 0) + 1
      }
      const good = goodClient(stop)
      await Promise.all(Array.from({ length: CONNECTIONS }, () => hold(head, send, stop, count)))
      const { p99, statuses } = await good
      const peak = peakResidentBytes(server.process.pid)
      figures[`${what}: most resident, MB`] = mb(peak)
      figures[`${what}: p99 of another organization, ms`] = p99
      figures[`${what}: answers`] = Object.entries(found)
        .map((one) => one.join(': '))
        .join(', ')
      expect(peak).toBeLessThan(MOST_RESIDENT)
      expect(Object.keys(found)).not.toEqual([])
      expect(answers).toEqual(expect.arrayContaining(Object.keys(found)))
      expect(statuses).toEqual([200])
    },
    LIMIT_MS,
  )
})

/** The part of a key with something else in it. */
function changed(part: string, change: object): string {
  const of = JSON.parse(Buffer.from(part, 'base64url').toString()) as object
  return Buffer.from(JSON.stringify({ ...of, ...change })).toString('base64url')
}

/** A token like that of the good client, with another signature. */
function invalid(head: object, payload: object): string {
  const [header = '', claims = '', signature = ''] = goodKey.split('.')
  return [changed(header, head), changed(claims, payload), signature].join('.')
}

describe('tokens', () => {
  test.each([
    { what: 'forged tokens', keyOf: (n: number) => invalid({}, { jti: `${n}` }) },
    { what: 'tokens of unknown issuers', keyOf: (n: number) => invalid({ kid: `${n}` }, {}) },
  ])(
    '$what, before and after a restart',
    async ({ what, keyOf }) => {
      const stop = new AbortController()
      const counts: Record<number, number> = {}
      let number = 0
      const flood = async () => {
        while (!stop.signal.aborted) {
          try {
            const { status } = await ask(server, HOOKS, { key: keyOf(number++) })
            counts[status] = (counts[status] ?? 0) + 1
          } catch {
            // While it restarts.
            await sleep(50)
          }
        }
      }
      const flooding = Promise.all(Array.from({ length: CONNECTIONS }, flood))
      try {
        const known = await goodClient(AbortSignal.timeout(FLOOD_MS))
        const keys: string[] = []
        while (keys.length < CLIENTS) keys.push(await davit.makeKey({ namespace: GOOD, name: 'owner' }))
        const { port } = server
        await server.process.kill()
        server = await davit.startServer({ port })
        await server.process.untilReady()
        const began = performance.now()
        const times: number[] = []
        const statuses = await Promise.all(
          keys.map(async (key) => {
            const status = await askAlone(server, HOOKS, key)
            times.push(performance.now() - began)
            return status
          }),
        )
        figures[`${what}: p99 of a known client, ms`] = known.p99
        figures[`${what}: p99 of ${CLIENTS} new clients of a restarted server, ms`] = p99Of(times)
        figures[`${what}: answers`] = Object.entries(counts)
          .map((one) => one.join(': '))
          .join(', ')
        expect(known.statuses).toEqual([200])
        expect(new Set(statuses)).toEqual(new Set([200]))
      } finally {
        stop.abort()
        await flooding
      }
    },
    LIMIT_MS,
  )
})

test(
  'ten thousand idle connections',
  async () => {
    const before = residentBytes(server.process.pid)
    const sockets: ReturnType<typeof connect>[] = []
    try {
      const stop = new AbortController()
      const good = goodClient(stop.signal)
      while (sockets.length < IDLE) sockets.push(...(await Promise.all(Array.from({ length: 50 }, idle))))
      stop.abort()
      const { p99, statuses } = await good
      const open = sockets.filter(({ closed }) => !closed).length
      const grown = residentBytes(server.process.pid) - before
      figures['idle connections: tried'] = IDLE
      figures['idle connections: left open'] = open
      figures['idle connections: resident grown, MB'] = mb(grown)
      figures['idle connections: p99 of another organization, ms'] = p99
      expect(statuses).toEqual([200])
      expect(open).toBeLessThanOrEqual(2_000)
      expect(open).toBeGreaterThan(1_900)
      expect(peakResidentBytes(server.process.pid)).toBeLessThan(MOST_RESIDENT)
    } finally {
      for (const socket of sockets) socket.destroy()
    }

    /** Has been served once, so that it may stay for a minute. */
    async function idle() {
      const socket = connect(server.port, '127.0.0.1')
      socket.on('error', () => undefined)
      await new Promise<void>((resolve) => {
        socket.once('connect', () => socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'))
        socket.once('data', () => resolve())
        socket.once('close', () => resolve())
      })
      socket.resume()
      return socket
    }
  },
  LIMIT_MS,
)
