/**
 * A receiver that a customer could run: it verifies every request with the library of the Standard Webhooks project, and fails
 * now and then.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AttemptCounts, readBody, signatureProblem } from '../src/receiver/delivery-request.ts'

export type Received = {
  at: Date
  endpoint: string
  type: string
  id: string
  /** How often this id has arrived at this endpoint. */
  attempt: number
  verified: boolean
  /** Status code of the answer. */
  code: number
}

export type PlaygroundReceiver = {
  url: string
  close(): Promise<void>
}

export type ReceiverOptions = {
  /** The possible secrets of an endpoint, which is named by its path; read again after a rotation. Undefined: no endpoint has it. */
  secretsOf: (endpoint: string, fresh: boolean) => Promise<readonly string[] | undefined>
  onReceived: (received: Received) => void
  /** Called for a request to a path that no endpoint has, for example from another playground. */
  onUnknownPath: (path: string) => void
  isOrdered: (endpoint: string) => boolean
  /** Whether an attempt may fail on purpose. */
  mayFail: (endpoint: string) => boolean
}

/** How often the receiver fails: the first `attempts` of one in `every` new events. */
type Faults = { every: number; attempts: number }
const FAULTS: Faults = { every: 6, attempts: 2 }
/** A failure holds up the whole endpoint queue for a while, so it must be rare enough for the queue to catch up. */
const ORDERED_FAULTS: Faults = { every: 25, attempts: 1 }
/** Early, so that the first fault comes soon. */
const FIRST_FAULT = 4

const PORT = 8484
/** As in `examples/endpoint.yaml`. If the port is taken, the receiver listens on another one. */
export const USUAL_URL = `http://127.0.0.1:${PORT}`

export async function startPlaygroundReceiver(options: ReceiverOptions): Promise<PlaygroundReceiver> {
  const attempts = new AttemptCounts()
  const faults = new FaultPlan(options.isOrdered)
  const server = createServer((request, response) => {
    void answer(options, { request, response, attempts, faults }).catch(() => response.destroy())
  })
  const port = await listen(server, PORT).catch(() => listen(server, 0))
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function listen(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

type Exchange = {
  request: IncomingMessage
  response: ServerResponse
  attempts: AttemptCounts
  faults: FaultPlan
}

async function answer(
  options: ReceiverOptions,
  { request, response, attempts, faults }: Exchange,
): Promise<void> {
  const endpoint = (request.url ?? '/').split('?', 1)[0]?.slice(1) ?? ''
  const body = await readBody(request)
  if (!body) throw new Error('too large')
  const id = String(request.headers['webhook-id'] ?? '')
  const secrets = await options.secretsOf(endpoint, false)
  if (secrets === undefined) {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('no such endpoint')
    options.onUnknownPath(endpoint)
    return
  }
  const attempt = attempts.count(`${endpoint} ${id}`)
  const isSignedWith = (keys: readonly string[] = []) =>
    signatureProblem(keys, request.headers, body) === undefined
  const verified = isSignedWith(secrets) || isSignedWith(await options.secretsOf(endpoint, true))
  const fails = options.mayFail(endpoint) && faults.fails(endpoint, id, attempt)
  const code = !verified ? 401 : fails ? 503 : 200
  response.writeHead(code, { 'content-type': 'text/plain' }).end(code === 200 ? 'thank you' : 'not now')
  options.onReceived({ at: new Date(), endpoint, type: typeOf(body), id, attempt, verified, code })
}

/** Decides which events fail at first. */
class FaultPlan {
  readonly #isOrdered: (endpoint: string) => boolean
  readonly #events = new Map<string, number>()
  readonly #failing = new Set<string>()

  constructor(isOrdered: (endpoint: string) => boolean) {
    this.#isOrdered = isOrdered
  }

  fails(endpoint: string, id: string, attempt: number): boolean {
    const { every, attempts } = this.#isOrdered(endpoint) ? ORDERED_FAULTS : FAULTS
    const key = `${endpoint} ${id}`
    if (attempt === 1) {
      const events = (this.#events.get(endpoint) ?? 0) + 1
      this.#events.set(endpoint, events)
      if (events % every === FIRST_FAULT) this.#failing.add(key)
    }
    if (attempt > attempts) this.#failing.delete(key)
    return this.#failing.has(key)
  }
}

function typeOf(body: Buffer): string {
  try {
    return String((JSON.parse(body.toString('utf8')) as { type?: unknown }).type)
  } catch {
    return '?'
  }
}
