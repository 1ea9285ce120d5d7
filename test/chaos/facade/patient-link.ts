/** A client's way to the facades: connections that are kept, and patience with what breaks. */
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
  /** Number of the facade that answered. */
  by: number
}

export type PatientLinkOptions = {
  baseUrls: readonly string[]
  apiKey: string
  ledger: Ledger
  random: SeededRandom
  /** To each facade; absent: two, so that one request can be sent twice at a time. */
  connections?: number
  /** So long an answer may take, the wait for a connection included. Absent: until the facade itself gives up. */
  answerLimitMs?: number
  /** For how long nothing keeps the facades from answering: before it was so for long, nobody complains. Absent: always. */
  calmMs?: () => number
  /** So long of that is waited for an answer, from the first question on. Absent: two minutes. */
  patienceMs?: number
}

const CONNECTIONS = 2
/** The facade itself gives up earlier. */
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

  get facades(): number {
    return this.#options.baseUrls.length
  }

  /**
   * Sends it to the facades in turn until one answers with what does not pass by itself. What would be done twice is sent once.
   * @param first number of the facade that is asked first
   * @returns undefined where nobody knows whether it was done
   */
  async ask(asked: Asked, first: number): Promise<Answered | undefined> {
    const { ledger, random, patienceMs = PATIENCE_MS, calmMs = () => patienceMs } = this.#options
    const isHarmless = asked.method !== 'POST' || asked.idempotencyKey !== undefined
    const deadline = performance.now() + patienceMs
    for (let turn = first; performance.now() < deadline || calmMs() < patienceMs; turn += 1) {
      const answer = await this.#once(asked, turn % this.facades)
      if (answer && !mayPass(answer)) return answer
      ledger.failed(answer ? String(answer.status) : 'lost')
      if (!isHarmless) return undefined
      ledger.retried += 1
      await sleep(random.between(100, 600))
    }
    ledger.complain(`${asked.method} ${asked.path} was never answered`)
    return undefined
  }

  /** The same, of one facade alone: what it has said it must know. */
  async askOnly(asked: Asked, facade: number): Promise<Answered | undefined> {
    const answer = await this.#once(asked, facade)
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

/** A process that is suspended while a request comes finds that it came too slowly. */
function mayPass({ status }: Answered): boolean {
  return status >= 500 || status === 429 || status === 408
}
