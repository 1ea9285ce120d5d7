/**
 * A receiver of webhooks for a first try and for tests of an installation: it verifies each delivery with the library of the Standard
 * Webhooks project, and prints a line about it. It keeps nothing.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'
import { sanitizeText } from '../lib/text.ts'
import { AttemptCounts, MAX_BODY_BYTES, readBody, signatureProblem } from './delivery-request.ts'

export type ReceiverOptions = {
  host: string
  /** 0 is any free port. */
  port: number
  /** The signing secrets that are active; read for each delivery, since they are rotated. */
  secrets: () => Promise<readonly string[]>
  /** Takes one line, without a line break. */
  print: (line: string) => void
}

export type Receiver = { port: number; close(): Promise<void> }

const MAX_CONNECTIONS = 256
const REQUEST_TIMEOUT_MS = 30_000
const PRINTED_CHARACTERS = 128

const envelope = z.object({ type: z.string() })

type Answer = { code: number; line: string }

/** @throws Error when it cannot listen */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const attempts = new AttemptCounts()
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    void serve(request, response, options, attempts).catch(() => response.destroy())
  })
  server.maxConnections = MAX_CONNECTIONS
  await listen(server, options)
  const { port } = server.address() as AddressInfo
  return { port, close: () => closed(server) }
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  options: ReceiverOptions,
  attempts: AttemptCounts,
): Promise<void> {
  if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'text/plain' }).end('ready\n')
    return
  }
  const body = await readBody(request)
  const { code, line } = body === undefined ? TOO_LARGE : await judge(request, body, options, attempts)
  options.print(line)
  response
    .writeHead(code, { 'content-length': 0, ...(body === undefined ? { connection: 'close' } : {}) })
    .end()
}

const TOO_LARGE: Answer = { code: 413, line: `rejected: the body is larger than ${MAX_BODY_BYTES} bytes` }

async function judge(
  { headers }: IncomingMessage,
  body: Buffer,
  { secrets }: ReceiverOptions,
  attempts: AttemptCounts,
): Promise<Answer> {
  const id = printable(String(headers['webhook-id'] ?? 'without webhook-id'))
  const active = await secrets().catch((error: unknown) => error as Error)
  if (active instanceof Error) return { code: 503, line: `not verified ${id}: ${printable(active.message)}` }
  if (active.length === 0) return { code: 503, line: `not verified ${id}: there is no signing secret yet` }
  const problem = signatureProblem(active, headers, body)
  if (problem !== undefined) return { code: 401, line: `not verified ${id}: ${printable(problem)}` }
  const attempt = attempts.count(id)
  const repeated = attempt > 1 ? `, received ${attempt} times` : ''
  return { code: 204, line: `verified ${printable(typeOf(body))} ${id} ${body.length} bytes${repeated}` }
}

function typeOf(body: Buffer): string {
  try {
    return envelope.parse(JSON.parse(body.toString('utf8'))).type
  } catch {
    return 'without type'
  }
}

function printable(text: string): string {
  return sanitizeText(text, PRINTED_CHARACTERS).replaceAll(/\s+/g, ' ')
}

async function listen(server: Server, { host, port }: Pick<ReceiverOptions, 'host' | 'port'>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
}

async function closed(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
