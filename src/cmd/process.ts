/** Metrics and health for the platform; never for tenants. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Metrics } from './metrics.ts'

/** What keeps the process from being live or ready, in words; none when it is. */
export type Check = () => readonly string[]

export type OpsServerOptions = {
  /** An address, without brackets. */
  host: string
  /** 0: any free one. */
  port: number
  metrics: Pick<Metrics, 'render' | 'contentType'>
  live: Check
  ready: Check
}

export type OpsServer = { address: AddressInfo; close(): Promise<void> }

const REQUEST_TIMEOUT_MS = 10_000
/** A client that reads slowly, or not at all. */
const IDLE_TIMEOUT_MS = 30_000
const MAX_CONNECTIONS = 64
const MAX_HEADER_BYTES = 8 * 1024

const TEXT = 'text/plain; charset=utf-8'

type Answer = { code: number; type: string; body: string }

/** `/metrics`, `/healthz` and `/readyz`. @throws Error when the address cannot be listened on */
export async function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
    },
    (request, response) => {
      // Nobody sends a body here; what comes of one is not read.
      request.resume()
      answer(options, request.method ?? '', request.url ?? '/').then(
        (found) => send(response, found),
        () => send(response, { code: 500, type: TEXT, body: 'the metrics could not be read\n' }),
      )
    },
  )
  server.maxConnections = MAX_CONNECTIONS
  server.timeout = IDLE_TIMEOUT_MS
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, resolve)
  })
  return {
    address: server.address() as AddressInfo,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function answer(options: OpsServerOptions, method: string, url: string): Promise<Answer> {
  const path = url.split('?', 1)[0]
  if (method !== 'GET' && method !== 'HEAD') return { code: 405, type: TEXT, body: 'only GET\n' }
  if (path === '/healthz') return health(options.live)
  if (path === '/readyz') return health(options.ready)
  if (path !== '/metrics') {
    return { code: 404, type: TEXT, body: 'there are /metrics, /healthz and /readyz\n' }
  }
  return { code: 200, type: options.metrics.contentType, body: await options.metrics.render() }
}

function health(check: Check): Answer {
  const problems = problemsOf(check)
  if (problems.length === 0) return { code: 200, type: TEXT, body: 'ok\n' }
  return { code: 503, type: TEXT, body: `${problems.join('\n')}\n` }
}

function problemsOf(check: Check): readonly string[] {
  try {
    return check()
  } catch {
    return ['the check itself failed']
  }
}

function send(response: ServerResponse, { code, type, body }: Answer): void {
  response
    .writeHead(code, {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    })
    .end(body)
}
