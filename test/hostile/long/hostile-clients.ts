/** Misbehaving clients of the REST API, one kind after the other, next to good ones. */
import { randomBytes, randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type Target = {
  port: number
  organization: string
  key: string
  /** `whe_<name>` of an endpoint with deliveries, and a type that it gets. */
  endpointId: string
  type: string
}

/** Results of the clients so far, by kind for hostile ones. */
export type Met = {
  good: number
  /** Unexpected answers to good requests. */
  wrong: string[]
  hostile: Record<string, number>
  /** Connections that the REST server had not closed when it should have. */
  held: number
}

const GOOD_EVERY_MS = 100
const HOSTILE_EVERY_MS = 500
/** Nothing that a client begins is kept for longer: ten seconds for headers, ten for a body, and twenty for an answer. */
const LONGEST_MS = 45_000
const DRIP_MS = 1000
const SILENT_MS = 5000

/** @returns whether the REST server has closed the connection in time */
type Hostile = (target: Target, stop: AbortSignal) => Promise<boolean>

const KINDS: Readonly<Record<string, Hostile>> = {
  'headers in drops': (to, stop) => drip(to, stop, () => 'X-Drop: 1\r\n'),
  'a body in drops': (to, stop) => drip(to, stop, () => ' ', headOf(to, ['Content-Length: 1000', ''])),
  'ends in the headers': (to) => send(to, 'POST / HTTP/1.1\r\nHost: x\r\n', 'destroy'),
  'ends in the body': (to) => send(to, `${headOf(to, ['Content-Length: 1000', ''])}{"type":`, 'destroy'),
  'says that nothing more comes, in the body': (to) =>
    send(to, `${headOf(to, ['Content-Length: 1000', ''])}{"type":`, 'end'),
  'never reads the answer': (to, stop) => deaf(to, stop),
  'goes before the answer': (to) => send(to, get(to, `/webhooks/${to.endpointId}/deliveries`), 'destroy'),
  'a hundred requests on one connection, and goes': (to) =>
    send(to, get(to, '/webhooks').repeat(100), 'destroy'),
  'too large a body': (to) => send(to, post(to, ' '.repeat(2 ** 20))),
  'a flood of headers': (to) => send(to, headOf(to, [...Array(200).fill(`X-${'h'.repeat(100)}: 1`), ''])),
  'no HTTP': (to) => send(to, randomBytes(1000).toString('latin1')),
  'no JSON': (to) => send(to, post(to, `{"type":"${to.type}","data":${'['.repeat(50_000)}`)),
  'a key that is none': (to) => send({ ...to, key: randomBytes(200).toString('base64url') }, get(to, '')),
  'a key that looks like one': (to) => {
    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const key = `${part({ alg: 'RS256', kid: randomUUID() })}.${part({ sub: randomUUID(), exp: 4e9 })}.${randomBytes(256).toString('base64url')}`
    const at = { ...to, key }
    return send(at, get(at, '/webhooks'))
  },
  'an organization that is none': (to) => {
    const at = { ...to, organization: randomUUID() }
    return send(at, get(at, '/webhooks'))
  },
  'an endpoint that is none': (to) => send(to, get(to, `/webhooks/whe_${randomUUID()}/deliveries`)),
  'a cursor of its own': (to) =>
    send(
      to,
      get(to, `/webhooks/${to.endpointId}/deliveries?cursor=${randomBytes(60).toString('base64url')}`),
    ),
  'an event that is refused, under a key': (to) =>
    send(to, post(to, JSON.stringify({ type: randomUUID(), data: 1 }), [`Idempotency-Key: ${randomUUID()}`])),
}

/** Sends good and bad requests until `stop`. */
export class HostileClients {
  readonly met: Met = {
    good: 0,
    wrong: [],
    hostile: Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, 0])),
    held: 0,
  }
  readonly #target: Target
  readonly #stopping = new AbortController()
  readonly #running: Promise<unknown>

  constructor(target: Target) {
    this.#target = target
    this.#running = Promise.all([this.#beGood(), this.#beHostile()])
  }

  async stop(): Promise<Met> {
    this.#stopping.abort()
    await this.#running
    return this.met
  }

  async #beGood(): Promise<void> {
    const { signal } = this.#stopping
    const { organization, endpointId, type, port } = this.#target
    const base = `http://127.0.0.1:${port}/organizations/${organization}`
    const asks: [method: string, path: string, wanted: number][] = [
      ['GET', '/webhooks', 200],
      ['GET', `/webhooks/${endpointId}/deliveries?limit=10`, 200],
      ['POST', '/events', 202],
      ['GET', '/webhooks/event-types', 200],
    ]
    for (let n = 0; !signal.aborted; n += 1) {
      const [method, path, wanted] = asks[n % asks.length] ?? ['GET', '', 404]
      await this.#askOne(`${base}${path}`, { method, wanted, body: JSON.stringify({ type, data: { n } }) })
      await sleep(GOOD_EVERY_MS, undefined, { signal }).catch(() => undefined)
    }
  }

  async #askOne(url: string, of: { method: string; wanted: number; body: string }): Promise<void> {
    const headers = { authorization: this.#target.key, 'content-type': 'application/json' }
    try {
      const answer = await fetch(url, {
        method: of.method,
        headers,
        ...(of.method === 'POST' ? { body: of.body } : {}),
        signal: AbortSignal.timeout(LONGEST_MS),
      })
      const text = await answer.text()
      this.met.good += 1
      if (answer.status !== of.wanted) this.#note(`${of.method} ${url}: ${answer.status} ${text}`)
    } catch (error) {
      this.#note(`${of.method} ${url}: ${String(error)}`)
    }
  }

  #note(words: string): void {
    if (this.met.wrong.length < 20) this.met.wrong.push(words.slice(0, 500))
  }

  async #beHostile(): Promise<void> {
    const { signal } = this.#stopping
    const under = new Set<Promise<unknown>>()
    const kinds = Object.entries(KINDS)
    for (let n = 0; !signal.aborted; n += 1) {
      const [kind, run] = kinds[n % kinds.length] ?? kinds[0] ?? ['', async () => true]
      const one = run(this.#target, signal).then((isClosed) => {
        this.met.hostile[kind] = (this.met.hostile[kind] ?? 0) + 1
        if (!isClosed) this.met.held += 1
        under.delete(one)
      })
      under.add(one)
      await sleep(HOSTILE_EVERY_MS, undefined, { signal }).catch(() => undefined)
    }
    await Promise.all(under)
  }
}

function pathOf({ organization }: Target, path: string): string {
  return `/organizations/${organization}${path}`
}

function headOf(to: Target, more: readonly string[]): string {
  const own = [`Authorization: ${to.key}`, 'Host: x', 'Content-Type: application/json']
  return [`POST ${pathOf(to, '/events')} HTTP/1.1`, ...own, ...more, ''].join('\r\n')
}

function post(to: Target, body: string, more: readonly string[] = []): string {
  return `${headOf(to, [...more, `Content-Length: ${body.length}`, ''])}${body}`
}

function get(to: Target, path: string): string {
  return `GET ${pathOf(to, path)} HTTP/1.1\r\nAuthorization: ${to.key}\r\nHost: x\r\n\r\n`
}

/** Sends data, and waits for the answer; or leaves immediately. */
async function send(
  { port }: Target,
  text: string,
  then: 'read' | 'end' | 'destroy' = 'read',
): Promise<boolean> {
  const socket = await dial(port)
  socket.write(text, 'latin1')
  if (then === 'end') socket.end()
  if (then === 'destroy') setImmediate(() => socket.destroy())
  socket.once('data', () => socket.end())
  return await closed(socket)
}

/** Sends a little at a time, for as long as the REST server allows it. */
async function drip(
  { port }: Target,
  stop: AbortSignal,
  drop: () => string,
  head = 'POST / HTTP/1.1\r\nHost: x\r\n',
) {
  const socket = await dial(port)
  socket.write(head)
  socket.resume()
  const timer = setInterval(() => socket.write(drop()), DRIP_MS)
  const isClosed = await closed(socket, stop)
  clearInterval(timer)
  return isClosed
}

/** Requests as much as there is, and reads nothing of it. */
async function deaf(to: Target, stop: AbortSignal): Promise<boolean> {
  const socket = await dial(to.port)
  socket.pause()
  for (let n = 0; n < 50; n += 1) socket.write(get(to, `/webhooks/${to.endpointId}/deliveries?limit=100`))
  await sleep(SILENT_MS, undefined, { signal: stop }).catch(() => undefined)
  socket.destroy()
  return true
}

async function dial(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => undefined)
  await new Promise<void>((resolve) => {
    socket.once('connect', () => resolve())
    socket.once('close', () => resolve())
  })
  return socket
}

/** Resolves when the connection is closed. @returns whether the server closed it */
async function closed(socket: Socket, stop?: AbortSignal): Promise<boolean> {
  if (socket.destroyed) return true
  let isHeld = false
  const end = () => socket.destroy()
  const timer = setTimeout(() => {
    isHeld = true
    end()
  }, LONGEST_MS)
  stop?.addEventListener('abort', end)
  socket.once('end', () => socket.end())
  socket.resume()
  await new Promise<void>((resolve) => socket.once('close', () => resolve()))
  stop?.removeEventListener('abort', end)
  clearTimeout(timer)
  return !isHeld
}
