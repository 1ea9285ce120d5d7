/** A client's link to the REST servers: it keeps connections, and retries after failures. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import type { SeededRandom } from '../seeded-random.ts'
import type { Ledger } from './ledger.ts'

export type Asked = {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  body?: unknown
  idempotencyKey?: string
}

export type Answered = {
  status: number
  json: Record<string, unknown>
  replayed: boolean
  /** Number of the REST server that answered. */
  by: number
}

export type PatientLinkOptions = {
  baseUrls: readonly string[]
  apiKey: string
  ledger: Ledger
  random: SeededRandom
  /** Connections to each REST server; absent: two, so that one request can be sent twice at a time. */
  connections?: number
  /** Maximum time of an answer, including the wait for a connection. Absent: the server's own timeout applies. */
  answerLimitMs?: number
  /**
   * How long no fault has kept the REST servers from answering: shorter calm periods excuse a failure. Absent: there are no
   * faults.
   */
  calmMs?: () => number
  /** Calm time within which an answer must arrive, counted from the first request. Absent: two minutes. */
  patienceMs?: number
}

const CONNECTIONS = 2
/** The REST server itself gives up earlier. */
const ANSWER_LIMIT_MS = 40_000
const PATIENCE_MS = 120_000

export class PatientLink {
  readonly #options: PatientLinkOptions
  readonly #agent: Agent

  constructor(options: PatientLinkOptions) {
    this.#options = options
    this.#agent = new Agent({
      connections: options.connections ?? CONNECTIONS,
      headersTimeout: ANSWER_LIMIT_MS,
      bodyTimeout: ANSWER_LIMIT_MS,
    })
  }

  get servers(): number {
    return this.#options.baseUrls.length
  }

  /**
   * Sends a request to the REST servers in turn until one gives a permanent answer. A request that is not idempotent is sent
   * once.
   * @param first number of the REST server that is tried first
   * @returns undefined if its effect is unknown
   */
  async ask(asked: Asked, first: number): Promise<Answered | undefined> {
    const { ledger, random, patienceMs = PATIENCE_MS, calmMs = () => patienceMs } = this.#options
    const isHarmless = asked.method !== 'POST' || asked.idempotencyKey !== undefined
    const deadline = performance.now() + patienceMs
    for (let turn = first; performance.now() < deadline || calmMs() < patienceMs; turn += 1) {
      const answer = await this.#once(asked, turn % this.servers)
      if (answer && !mayPass(answer)) return answer
      ledger.failed(answer ? String(answer.status) : 'lost')
      if (!isHarmless) return undefined
      ledger.retried += 1
      await sleep(random.between(100, 600))
    }
    ledger.complain(`${asked.method} ${asked.path} was never answered`)
    return undefined
  }

  /** Asks only one REST server, which must know its own answers. */
  async askOnly(asked: Asked, server: number): Promise<Answered | undefined> {
    const answer = await this.#once(asked, server)
    return answer && answer.status < 500 ? answer : undefined
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #once({ method, path, body, idempotencyKey }: Asked, by: number): Promise<Answered | undefined> {
    const { baseUrls, apiKey, answerLimitMs } = this.#options
    try {
      const {
        statusCode,
        headers,
        body: answer,
      } = await request(`${baseUrls[by]}${path}`, {
        dispatcher: this.#agent,
        ...(answerLimitMs === undefined ? {} : { signal: AbortSignal.timeout(answerLimitMs) }),
        method,
        headers: {
          authorization: apiKey,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await answer.text()
      const json = JSON.parse(text === '' ? '{}' : text) as Record<string, unknown>
      return { status: statusCode, json, replayed: headers['idempotency-replayed'] === 'true', by }
    } catch {
      return undefined
    }
  }
}

/** A process that is suspended during a request reports that the request was too slow. */
function mayPass({ status }: Answered): boolean {
  return status >= 500 || status === 429 || status === 408
}
