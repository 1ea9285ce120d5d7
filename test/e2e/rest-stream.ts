/** A light and bounded stream of events by REST, through a port-forward, and what of it has come to the receiver. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { PortForward } from './port-forward.ts'
import type { ReceiverPod, Seen } from './receiver-pod.ts'

const MAX_AT_A_TIME = 8
const ASK_LIMIT_MS = 15_000
/** Longer than a replica that is gone is waited for. */
const TRY_LIMIT_MS = 90_000
const AGAIN_MS = 250

type Published = { begun: number; accepted: number }

export type EndpointSpec = {
  path: string
  ordered: boolean
  eventType: string
}

const OFTEN = 'environment.started'
/** One at a time goes out to an ordered endpoint, so that it gets every tenth event alone. */
const SELDOM = 'environment.stopped'
const SELDOM_EVERY = 10

/** Two that get the same, and an ordered one. */
export const ENDPOINTS: readonly EndpointSpec[] = [
  { path: '/one', ordered: false, eventType: OFTEN },
  { path: '/two', ordered: false, eventType: OFTEN },
  { path: '/ordered', ordered: true, eventType: SELDOM },
]

export class RestStream {
  readonly #forward: PortForward
  readonly #organization: string
  readonly #key: string
  /** By event type, and by id. */
  readonly #published: Readonly<Record<string, Map<string, Published>>> = {
    [OFTEN]: new Map(),
    [SELDOM]: new Map(),
  }
  readonly refused: string[] = []
  #retries = 0
  #numbers = 0

  constructor(forward: PortForward, organization: string, key: string) {
    this.#forward = forward
    this.#organization = organization
    this.#key = key
  }

  async makeEndpoints(receiver: ReceiverPod): Promise<void> {
    for (const { path, ordered, eventType } of ENDPOINTS) {
      const body = { url: `${receiver.url}${path}`, eventTypes: [eventType], ordered }
      const { secret } = (await this.#post('/webhooks', body, `endpoint${path}`)) as { secret: string }
      await receiver.expect(path, secret)
    }
  }

  /** Ends when the last one is accepted, or rejected permanently. One at a time. */
  async publish(count: number, perSecond: number): Promise<void> {
    const begin = performance.now()
    const running = new Set<Promise<void>>()
    for (let begun = 0; begun < count; begun += 1) {
      const number = this.#numbers
      this.#numbers += 1
      const early = begin + (begun * 1000) / perSecond - performance.now()
      if (early > 0) await sleep(early)
      if (running.size >= MAX_AT_A_TIME) await Promise.race(running)
      const type = number % SELDOM_EVERY === 0 ? SELDOM : OFTEN
      const one: Promise<void> = this.#publishOne(type, `env_${number}`).finally(() => running.delete(one))
      running.add(one)
    }
    await Promise.all(running)
  }

  async #publishOne(type: string, id: string): Promise<void> {
    const begun = performance.now()
    try {
      await this.#post('/events', { type, data: { environmentId: id } }, id)
      this.#published[type]?.set(id, { begun, accepted: performance.now() })
    } catch (error) {
      this.refused.push(`${id}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  /** Under one idempotency key, so that what is asked again is not published again. */
  async #post(path: string, body: object, idempotencyKey: string): Promise<unknown> {
    const deadline = performance.now() + TRY_LIMIT_MS
    for (;;) {
      const answer = await this.#ask(path, body, idempotencyKey)
      if (typeof answer === 'object') return answer
      if (performance.now() > deadline) throw new Error(answer)
      this.#retries += 1
      await sleep(AGAIN_MS)
    }
  }

  /** @returns why it has to be asked again, in words */
  async #ask(path: string, body: object, idempotencyKey: string): Promise<object | string> {
    let answer: Response
    try {
      answer = await fetch(`${this.#forward.url}/organizations/${this.#organization}${path}`, {
        method: 'POST',
        headers: {
          authorization: this.#key,
          'content-type': 'application/json',
          'idempotency-key': idempotencyKey,
        },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(ASK_LIMIT_MS),
      })
      if (answer.ok) return (await answer.json()) as object
    } catch (error) {
      await this.#forward.renew()
      return error instanceof Error ? error.message : String(error)
    }
    const words = `${answer.status} ${(await answer.text()).slice(0, 300)}`
    if (answer.status < 500 && answer.status !== 409 && answer.status !== 429) throw new Error(words)
    return words
  }

  /** How many deliveries there are of what was accepted. */
  get deliveries(): number {
    return ENDPOINTS.reduce((sum, endpoint) => sum + this.#of(endpoint).size, 0)
  }

  get accepted(): number {
    return Object.values(this.#published).reduce((sum, { size }) => sum + size, 0)
  }

  #of({ eventType }: EndpointSpec): ReadonlyMap<string, Published> {
    return this.#published[eventType] ?? new Map()
  }

  /** Requests that were made again. */
  get retries(): number {
    return this.#retries
  }

  lost(endpoint: EndpointSpec, { first }: Seen): string[] {
    const came = new Set(first)
    return [...this.#of(endpoint).keys()].filter((id) => !came.has(id))
  }

  /** Pairs in which the later one had been accepted before the earlier one was begun. */
  outOfOrder(endpoint: EndpointSpec, { first }: Seen): number {
    let earliestAccepted = Number.POSITIVE_INFINITY
    let wrong = 0
    for (const id of first.toReversed()) {
      const { begun, accepted } = this.#of(endpoint).get(id) ?? {
        begun: 0,
        accepted: Number.POSITIVE_INFINITY,
      }
      if (earliestAccepted < begun) wrong += 1
      earliestAccepted = Math.min(earliestAccepted, accepted)
    }
    return wrong
  }
}
