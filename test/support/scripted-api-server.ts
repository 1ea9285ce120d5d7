import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { RawObject } from '../../src/kube/client.ts'

export type RecordedRequest = {
  method: string
  path: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: string
  at: number
}

/** Answers one request instead of the server. */
export type Responder = (response: ServerResponse, request: RecordedRequest) => void

/** A list of one object asks only for the version. */
export type Kind = 'list' | 'version' | 'watch' | 'get' | 'write'

/** One open watch that a script can write to. */
export class OpenWatch {
  readonly #response: ServerResponse
  /** The version after which it was asked to start. */
  readonly from: number

  constructor(response: ServerResponse, from: number) {
    this.#response = response
    this.from = from
  }

  get open(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded
  }

  send(event: object): void {
    this.raw(`${JSON.stringify(event)}\n`)
  }

  raw(bytes: string | Buffer): void {
    this.#response.write(bytes)
  }

  /** Sends bytes if the other side still reads. @returns whether it does */
  offer(bytes: string): boolean {
    if (this.#response.writableNeedDrain) return false
    this.#response.write(bytes)
    return true
  }

  bookmark(version: number): void {
    this.send({ type: 'BOOKMARK', object: { metadata: { resourceVersion: String(version) } } })
  }

  error(code: number, reason = 'Expired', message = 'scripted'): void {
    this.send({ type: 'ERROR', object: { kind: 'Status', code, reason, message } })
  }

  /** Ends it like a server timeout. */
  end(): void {
    this.#response.end()
  }

  /** Ends it like a broken connection. */
  cut(): void {
    this.#response.destroy()
  }
}

/** A small API server that serves list and watch over HTTP/1.1 from its own store, with scripted faults. */
export class ScriptedApiServer {
  readonly requests: RecordedRequest[] = []
  readonly objects = new Map<string, RawObject>()
  version = 100
  /** Watches from older versions are answered with 410. */
  compactedAt = 0
  /** Objects per page. */
  pageSize = 500
  readonly #server: Server
  readonly #scripts: { kind: Kind; respond: Responder }[] = []
  #watches: OpenWatch[] = []
  #pages = new Map<string, { items: RawObject[]; version: number }>()
  #changed: (() => void)[] = []
  #port = 0

  constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response))
  }

  get origin(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** The open watches. */
  get watches(): OpenWatch[] {
    return this.#watches.filter((watch) => watch.open)
  }

  /** Uses the same port after a stop. */
  async start(): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#port = (this.#server.address() as AddressInfo).port
    return this
  }

  /** Rejects connections until it is started again. */
  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** Answers the next requests of this kind, one each. */
  script(kind: Kind, ...responders: Responder[]): void {
    this.#scripts.push(...responders.map((respond) => ({ kind, respond })))
  }

  /** Creates or changes an object and reports it to open watches, unless `silently`. */
  put(name: string, options: { silently?: boolean; uid?: string; fields?: object } = {}): RawObject {
    this.version += 1
    const before = this.objects.get(name)
    const uid = options.uid ?? before?.metadata.uid ?? `uid-${name}`
    const object = {
      metadata: { name, namespace: 'org', uid, resourceVersion: String(this.version) },
      ...options.fields,
    }
    this.objects.set(name, object)
    if (!options.silently) this.#tell({ type: before ? 'MODIFIED' : 'ADDED', object })
    return object
  }

  remove(name: string, options: { silently?: boolean } = {}): void {
    const before = this.objects.get(name)
    if (!before) return
    this.version += 1
    this.objects.delete(name)
    const metadata = { ...before.metadata, resourceVersion: String(this.version) }
    if (!options.silently) this.#tell({ type: 'DELETED', object: { ...before, metadata } })
  }

  count(kind: Kind): number {
    return this.requests.filter((request) => kindOf(request) === kind).length
  }

  /** Resolves when `condition` holds; it is evaluated after each request and each end of a response. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#changed.push(resolve))
  }

  /** Resolves with an open watch (other than those given). */
  async watch(...others: OpenWatch[]): Promise<OpenWatch> {
    const found = () => this.watches.find((watch) => !others.includes(watch))
    await this.until(() => found() !== undefined)
    return found() as OpenWatch
  }

  async #take(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('close', () => this.#notify())
    const request = await record(incoming)
    this.requests.push(request)
    const kind = kindOf(request)
    const script = this.#scripts.findIndex((each) => each.kind === kind)
    const [scripted] = script === -1 ? [] : this.#scripts.splice(script, 1)
    if (scripted) scripted.respond(response, request)
    else if (kind === 'watch') this.openWatch(response, request)
    else if (kind === 'list' || kind === 'version') this.sendList(response, request)
    else if (kind === 'get') this.#sendOne(response, request)
    else sendJson(response, 201, JSON.parse(request.body))
    this.#notify()
  }

  openWatch(response: ServerResponse, request: RecordedRequest): void {
    const from = Number(request.query.get('resourceVersion'))
    if (from < this.compactedAt) {
      sendStatus(response, 410, 'Expired')
      return
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.flushHeaders()
    this.#watches = [...this.watches, new OpenWatch(response, from)]
  }

  sendList(response: ServerResponse, request: RecordedRequest): void {
    const from = request.query.get('continue')
    const rest = from === null ? this.#snapshot() : this.#pages.get(from)
    if (!rest) {
      sendStatus(response, 410, 'Expired')
      return
    }
    const limit = Math.min(this.pageSize, Number(request.query.get('limit') ?? 500))
    const left = rest.items.slice(limit)
    const token = `page-${this.requests.length}`
    if (left.length > 0) this.#pages.set(token, { items: left, version: rest.version })
    const next = left.length > 0 ? { continue: token } : {}
    sendJson(response, 200, {
      kind: 'List',
      metadata: { resourceVersion: String(rest.version), ...next },
      items: rest.items.slice(0, limit),
    })
  }

  #snapshot(): { items: RawObject[]; version: number } {
    const items = [...this.objects.values()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    return { items, version: this.version }
  }

  #sendOne(response: ServerResponse, request: RecordedRequest): void {
    const object = this.objects.get(request.path.split('/').at(-1) ?? '')
    if (object) sendJson(response, 200, object)
    else sendStatus(response, 404, 'NotFound')
  }

  #tell(event: object): void {
    for (const watch of this.watches) watch.send(event)
  }

  #notify(): void {
    for (const resolve of this.#changed.splice(0)) resolve()
  }
}

export function sendStatus(
  response: ServerResponse,
  code: number,
  reason: string,
  more: { message?: string; details?: object; headers?: Record<string, string> } = {},
): void {
  const { message = `scripted ${reason}`, details, headers } = more
  sendJson(response, code, { kind: 'Status', status: 'Failure', code, reason, message, details }, headers)
}

export function sendJson(
  response: ServerResponse,
  code: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(code, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}

function kindOf({ method, path, query }: RecordedRequest): Kind {
  if (method !== 'GET') return 'write'
  if (query.has('watch')) return 'watch'
  if (!path.endsWith('/things')) return 'get'
  return query.get('limit') === '1' ? 'version' : 'list'
}

async function record(incoming: IncomingMessage): Promise<RecordedRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  const url = new URL(incoming.url ?? '/', 'http://scripted')
  return {
    method: incoming.method ?? '',
    path: url.pathname,
    query: url.searchParams,
    headers: incoming.headers,
    body: Buffer.concat(chunks).toString('utf8'),
    at: performance.now(),
  }
}
