/** The HTTP layer on a loopback port, with fake services and a client that can send anything. */

import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach } from 'vitest'
import type { CallerIdentity, ResourceAttributes } from '../../src/kube/reviews.ts'
import { type Clock, createRandom } from '../../src/lib/time.ts'
import type { CredentialService } from '../../src/server/credentials.ts'
import { type AppOptions, createApp } from '../../src/server/http/app.ts'
import { createHttpServer, type ServerLimits } from '../../src/server/http/server.ts'
import { Cursors } from '../../src/server/lists.ts'
import { allRoutes } from '../../src/server/routes.ts'
import { FakeClock } from './fake-clock.ts'
import { FakeServices } from './server-services.ts'

/** Start of the fake clock, in seconds since 1970. */
const STARTS_AT = Date.UTC(2026, 0, 31, 12) / 1000

/** Kinds of tokens; the permissions of each in `acme` are those that RBAC would give it. */
export const KEYS = {
  owner: keyOf('owner'),
  otherOwner: keyOf('other-owner'),
  viewer: keyOf('viewer'),
  publisher: keyOf('publisher'),
  expired: keyOf('expired', { exp: STARTS_AT - 60 }),
  wrongAudience: keyOf('wrong-audience', { aud: ['vault'] }),
  invented: keyOf('invented'),
}

export const ORGANIZATION = 'acme'
export const OTHER_ORGANIZATION = 'umbrella'

type Rule = (question: ResourceAttributes) => boolean

const RULES: Record<string, Rule> = {
  owner: ({ namespace }) => namespace === ORGANIZATION,
  'other-owner': ({ namespace }) => namespace === OTHER_ORGANIZATION,
  viewer: ({ namespace, verb }) => namespace === ORGANIZATION && ['get', 'list', 'watch'].includes(verb),
  publisher: ({ namespace, verb, resource }) =>
    namespace === ORGANIZATION && verb === 'create' && resource === 'webhookevents',
}

export type ServerBed = Awaited<ReturnType<typeof openServerBed>>

export type BedOptions = {
  limits?: AppOptions['limits']
  server?: Partial<ServerLimits>
  clock?: Clock
  /** Replaces `acme` and `umbrella`. */
  organizations?: readonly string[]
  /** Replaces the reviewer that knows the tokens. */
  tokens?: AppOptions['tokens']
  signatures?: AppOptions['signatures']
  access?: AppOptions['access']
  /** Replace the fakes. */
  credentials?: CredentialService
  log?: AppOptions['log']
  metrics?: NonNullable<AppOptions['metrics']>
}

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A bed that is closed when the test ends. */
export async function startServerBed(options: BedOptions = {}): Promise<ServerBed> {
  const bed = await openServerBed(options)
  cleanups.push(bed.close)
  return bed
}

/** A bed that the caller closes. */
export async function openServerBed(options: BedOptions = {}) {
  const clock = options.clock ?? new FakeClock()
  const organizations = options.organizations ?? [ORGANIZATION, OTHER_ORGANIZATION]
  const services = new FakeServices(organizations)
  const reviewed: string[] = []
  const questions: ResourceAttributes[] = []
  const answered: { route: string; status: number }[] = []
  const logged: { message: string; fields: Record<string, unknown> | undefined }[] = []
  const log = (_event: string, message: string, fields?: Record<string, unknown>) =>
    void logged.push({ message, fields })
  const cursors = new Cursors(Buffer.from('key of cursors'), clock)
  const routes = allRoutes({
    endpoints: services.endpoints,
    publishing: services.publishing,
    credentials: options.credentials ?? services.credentials,
    settings: services.settings,
    boxTemplates: services.boxTemplates,
    deliveries: services.deliveries,
    events: services.events,
    streams: services.streams,
    catalogue: services.catalogue,
    cursors,
  })
  const random = createRandom()
  const app = createApp({
    routes,
    version: '0.0.0',
    clock,
    random,
    log: options.log ?? { info: log, warn: log, error: log },
    metrics: options.metrics ?? { answered: (route, status) => void answered.push({ route, status }) },
    hashKey: Buffer.from('key of hashes'),
    organizations: { has: (name) => organizations.includes(name) },
    tokens: options.tokens ?? {
      async review(token) {
        reviewed.push(token)
        return identities.get(token)
      },
    },
    signatures: options.signatures ?? { check: async () => 'unknown' },
    access: options.access ?? {
      async allowed(who, question) {
        questions.push(question)
        return RULES[who.username]?.(question) ?? false
      },
    },
    ...(options.limits ? { limits: options.limits } : {}),
  })
  const server = createHttpServer(app, { random, limits: options.server ?? {} })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return {
    clock,
    services,
    reviewed,
    questions,
    answered,
    logged,
    routes,
    server,
    close,
    port,
    baseUrl: `http://127.0.0.1:${port}`,
  }
}

export type Asking = {
  method?: string
  key?: string | undefined
  headers?: Record<string, string>
  body?: string
}

/** Sends a usual request; a body is JSON unless its headers say otherwise. Of a stream, which has no end, it reads only the head. */
export async function ask(bed: Pick<ServerBed, 'baseUrl'>, path: string, asking: Asking = {}) {
  const { method = 'GET', key, headers, body } = asking
  const response = await fetch(bed.baseUrl + path, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: key }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
  })
  const text = isStream(response) ? '' : await response.text()
  if (isStream(response)) await response.body?.cancel()
  return {
    status: response.status,
    headers: response.headers,
    /** Path of the URL to which Location leads; empty without it. */
    location: pathOf(response),
    text,
    json: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {},
  }
}

function isStream({ headers }: Response): boolean {
  return headers.get('content-type') === 'text/event-stream'
}

/** The status of a GET on a connection of its own: those of `fetch` are shared, with a flood as well. */
export async function askAlone(bed: Pick<ServerBed, 'port'>, path: string, key: string): Promise<number> {
  const connection = await dial(bed)
  connection.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\n\r\n`)
  const head = await connection.until('\r\n\r\n')
  connection.close()
  return Number(head.split(' ')[1])
}

function pathOf({ headers, url }: Response): string {
  const location = headers.get('location')
  return location === null ? '' : new URL(location, url).pathname
}

/** Opens a raw connection. */
export async function dial(bed: Pick<ServerBed, 'port'>): Promise<RawConnection> {
  const socket = connect(bed.port, '127.0.0.1')
  await once(socket, 'connect')
  cleanups.push(async () => socket.destroy())
  return new RawConnection(socket)
}

export class RawConnection {
  readonly #socket: Socket
  readonly #ended: Promise<void>
  #received = ''

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => {
      this.#received += text
    })
    socket.on('error', () => undefined)
    this.#ended = new Promise((resolve) => socket.once('close', () => resolve()))
  }

  write(text: string): void {
    this.#socket.write(text, 'latin1')
  }

  close(): void {
    this.#socket.destroy()
  }

  /** Half-closes the connection, like a client that has gone. */
  end(): void {
    this.#socket.end()
  }

  /** Everything that was received until the other side closed. */
  async untilClosed(): Promise<string> {
    await this.#ended
    return this.#received
  }

  /** What was received, as soon as it contains `text`. */
  async until(text: string): Promise<string> {
    while (!this.#received.includes(text)) {
      await Promise.race([once(this.#socket, 'data'), this.#ended])
      if (this.#socket.destroyed && !this.#received.includes(text))
        throw new Error(`closed: ${this.#received}`)
    }
    return this.#received
  }
}

const identities = new Map<string, CallerIdentity>(
  (['owner', 'otherOwner', 'viewer', 'publisher', 'expired'] as const).map((kind) => {
    const username = nameIn(KEYS[kind])
    return [KEYS[kind], { username, uid: `uid-of-${username}`, groups: [], extra: {} }]
  }),
)

/** A token-shaped value for `name` that ends an hour after the fake clock's start. */
function keyOf(name: string, claims: { exp?: number; aud?: string[] } = {}): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const payload = { sub: name, aud: ['davit'], exp: STARTS_AT + 3600, ...claims }
  return `${part({ alg: 'none' })}.${part(payload)}.c2ln`
}

function nameIn(key: string): string {
  return (JSON.parse(Buffer.from(key.split('.')[1] ?? '', 'base64url').toString()) as { sub: string }).sub
}
