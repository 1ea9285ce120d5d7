/** Metrics and health for the platform; never for tenants. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Metrics } from './metrics.ts'

/** What keeps the process from being live or ready, in words; none when it is. */
export type Check = () => string[]

export type OpsServerOptions = { host: string; port: number; metrics: Metrics; live: Check; ready: Check }

export type OpsServer = { address: AddressInfo; close(): Promise<void> }

const REQUEST_TIMEOUT_MS = 10_000
const MAX_CONNECTIONS = 64

/** @throws Error when the address cannot be listened on */
export async function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  const server = createServer(
    { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS },
    (request, response) => {
      void answer(options, request.method ?? '', request.url ?? '/', response).catch(() => response.destroy())
    },
  )
  server.maxConnections = MAX_CONNECTIONS
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

async function answer(
  options: OpsServerOptions,
  method: string,
  url: string,
  response: ServerResponse,
): Promise<void> {
  const path = url.split('?')[0]
  if (method !== 'GET' && method !== 'HEAD') return send(response, 405, 'text/plain', 'only GET\n')
  if (path === '/healthz') return check(response, options.live)
  if (path === '/readyz') return check(response, options.ready)
  if (path !== '/metrics')
    return send(response, 404, 'text/plain', 'there are /metrics, /healthz and /readyz\n')
  send(response, 200, options.metrics.contentType, await options.metrics.render())
}

function check(response: ServerResponse, problems: Check): void {
  const found = problems()
  send(
    response,
    found.length === 0 ? 200 : 503,
    'text/plain',
    found.length === 0 ? 'ok\n' : `${found.join('\n')}\n`,
  )
}

function send(response: ServerResponse, code: number, type: string, body: string): void {
  response.writeHead(code, { 'content-type': type, 'cache-control': 'no-store' }).end(body)
}
