/** What every long-lived command has as a process: settings, a log, signals, an exit code, and the server for metrics and health. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { createLogger, type Logger, type StructuredLogger } from '../lib/log.ts'
import { createClock } from '../lib/time.ts'
import { VERSION } from '../lib/version.ts'
import { type Config, type Environment, parseConfig, parseSecrets, type Secrets } from './config.ts'
import type { Metrics } from './metrics.ts'

/** @throws Error with the name of the setting in front of the message */
export async function withSettingName<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    throw new Error(`${name}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

/** The part of `process` that reports uncaught errors. */
export type ErrorSource = {
  on(event: 'uncaughtException' | 'unhandledRejection', listener: (error: unknown) => void): unknown
}

export type UncaughtErrorOptions = {
  log: Logger & { flush(): void }
  exit: (code: number) => void
}

/**
 * Logs errors that nothing caught. After an unhandled rejection the process goes on, since the rest of it is unharmed. After an
 * exception in a callback its state is unknown: it exits, and the next process resumes from the store.
 */
export function logUncaughtErrors(source: ErrorSource, { log, exit }: UncaughtErrorOptions): void {
  source.on('unhandledRejection', (error) => {
    log.error('unhandled_rejection', 'unhandled promise rejection', { error, stack: stackOf(error) })
  })
  source.on('uncaughtException', (error) => {
    log.error('uncaught_exception', 'uncaught exception; exiting', { error, stack: stackOf(error) })
    log.flush()
    exit(1)
  })
}

/** The stack is the only hint at where an uncaught error came from. */
function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined
}

/** Why the process is not live or not ready, in words; none when it is. */
export type Check = () => readonly string[]

export type OpsServerOptions = {
  /** An address, without brackets. */
  host: string
  /** 0 is any free port. */
  port: number
  metrics: Pick<Metrics, 'render' | 'contentType'>
  live: Check
  ready: Check
}

export type OpsServer = { address: AddressInfo; close(): Promise<void> }

const REQUEST_TIMEOUT_MS = 10_000
/** For clients that read slowly or not at all. */
const IDLE_TIMEOUT_MS = 30_000
const MAX_CONNECTIONS = 64
const MAX_HEADER_BYTES = 8 * 1024

const TEXT = 'text/plain; charset=utf-8'

type OpsResponse = { code: number; type: string; body: string }

/** Serves `/metrics`, `/healthz` and `/readyz`, for the platform and not for tenants. @throws Error when it cannot listen */
export async function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
    },
    (request, response) => {
      // Discards a body.
      request.resume()
      respond(options, request.method ?? '', request.url ?? '/').then(
        (found) => send(response, found),
        () => send(response, { code: 500, type: TEXT, body: 'failed to read the metrics\n' }),
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

async function respond(options: OpsServerOptions, method: string, url: string): Promise<OpsResponse> {
  const path = url.split('?', 1)[0]
  if (method !== 'GET' && method !== 'HEAD')
    return { code: 405, type: TEXT, body: 'method not allowed; use GET\n' }
  if (path === '/healthz') return health(options.live)
  if (path === '/readyz') return health(options.ready)
  if (path !== '/metrics') {
    return { code: 404, type: TEXT, body: 'not found; use /metrics, /healthz or /readyz\n' }
  }
  return { code: 200, type: options.metrics.contentType, body: await options.metrics.render() }
}

function health(check: Check): OpsResponse {
  let problems: readonly string[]
  try {
    problems = check()
  } catch {
    problems = ['failed to run the check']
  }
  if (problems.length === 0) return { code: 200, type: TEXT, body: 'ok\n' }
  return { code: 503, type: TEXT, body: `${problems.join('\n')}\n` }
}

function send(response: ServerResponse, { code, type, body }: OpsResponse): void {
  response
    .writeHead(code, {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    })
    .end(body)
}

export type CommandSettings = { config: Config; secrets: Secrets; log: StructuredLogger }

/** Runs until `ending` resolves with the name of a signal. @throws Error when it cannot run */
export type CommandBody = (settings: CommandSettings, ending: Promise<string>) => Promise<void>

/** @returns the exit code: 0 after a signal, 1 when it cannot run @throws ConfigError */
export async function runCommand(name: string, environment: Environment, run: CommandBody): Promise<number> {
  const config = parseConfig(environment)
  const secrets = parseSecrets(environment)
  const log = createLogger({ level: config.logLevel, clock: createClock() })
  // Collects the whole heap each time it has doubled. V8's own choice depends on the speed of growth: after a tenth when that is slow,
  // so that an idle process goes through all of its memory every few seconds, and after threefold growth when it is fast.
  setFlagsFromString('--heap-growing-percent=100')
  logUncaughtErrors(process, { log, exit: (code) => process.exit(code) })
  const ending = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  log.info('process_starting', 'starting', { role: name, version: VERSION, config })
  try {
    await run({ config, secrets, log }, ending)
    log.info('process_stopped', 'stopped')
    return 0
  } catch (error) {
    log.error('process_failed', 'failed; exiting', { role: name, error })
    return 1
  } finally {
    await log.close()
  }
}
