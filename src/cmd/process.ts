import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { createClock } from '../lib/clock.ts'
import { createLogger, type Logger, type StructuredLogger } from '../lib/log.ts'
import { VERSION } from '../lib/version.ts'
import { type Config, type Environment, parseConfig, parseSecrets, type Secrets } from './config.ts'
import type { Metrics } from './metrics.ts'

/**
 * From now on all of the heap is collected when it has doubled. By itself V8 chooses how much it may grow, by how fast it does: by a
 * tenth where that is slow, so that a process with little to do goes through all of its memory every few seconds, and
 * threefold where it is fast.
 */
function setHeapGrowth(): void {
  // Read anew after each collection, so that it can be set at any time.
  setFlagsFromString('--heap-growing-percent=100')
}

/** What a setting is for. @throws Error with the name of the setting before what went wrong */
export async function withSettingName<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    throw new Error(`${name}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

/** What becomes of errors that nothing caught: a line of the log, never a bare stack on standard error. */

/** The part of `process` that tells of them. */
export type ErrorSource = {
  on(event: 'uncaughtException' | 'unhandledRejection', listener: (error: unknown) => void): unknown
}

export type UncaughtErrorOptions = {
  log: Logger & { flush(): void }
  /** Ends the process. */
  exit: (code: number) => void
}

/**
 * A rejection that nobody waits for leaves everything else as it was: the process goes on. After an exception in
 * a callback its state is unknown: it ends, and the next one goes on from the store.
 */
export function logUncaughtErrors(source: ErrorSource, { log, exit }: UncaughtErrorOptions): void {
  source.on('unhandledRejection', (error) => {
    log.error('A rejection that nobody waits for', { error, stack: stackOf(error) })
  })
  source.on('uncaughtException', (error) => {
    log.error('An exception that nothing caught; the process ends', { error, stack: stackOf(error) })
    log.flush()
    exit(1)
  })
}

/** Other errors are told by what they are; of a stray one nothing else tells where it came from. */
function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined
}

/** Metrics and health for the platform; never for tenants. */

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

/** What every role has as a process: settings, a log, signals, and an exit code. */

export type CommandSettings = { config: Config; secrets: Secrets; log: StructuredLogger }

/** Runs until `ending` resolves, with the name of a signal. @throws Error when it cannot run */
export type CommandBody = (settings: CommandSettings, ending: Promise<string>) => Promise<void>

/** @returns the exit code: 0 once it was told to end, 1 when it cannot run @throws ConfigError */
export async function runCommand(name: string, environment: Environment, role: CommandBody): Promise<number> {
  const config = parseConfig(environment)
  const secrets = parseSecrets(environment)
  const log = createLogger({ level: config.logLevel, clock: createClock() })
  setHeapGrowth()
  logUncaughtErrors(process, { log, exit: (code) => process.exit(code) })
  const ending = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  log.info('Starting', { role: name, version: VERSION, config })
  try {
    await role({ config, secrets, log }, ending)
    log.info('Ended')
    return 0
  } catch (error) {
    log.error('It cannot run', { role: name, error })
    return 1
  } finally {
    await log.close()
  }
}
