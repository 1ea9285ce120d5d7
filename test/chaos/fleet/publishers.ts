/** Publishes numbered events until it is stopped: over REST with an idempotency key each, and as WebhookEvents. */
import { setTimeout as sleep } from 'node:timers/promises'
import { API_VERSION } from '../../../src/apis/meta.ts'
import { webhookEventKind, webhookEvents } from '../../../src/apis/webhook-event.ts'
import { isApiError, type ResourceWriter } from '../../../src/kube/client.ts'
import type { Ledger } from '../rest-server/ledger.ts'
import type { PatientLink } from '../rest-server/patient-link.ts'
import type { SeededRandom } from '../seeded-random.ts'
import { EVENT_TYPES } from './endpoints.ts'
import { nameOfNote } from './noted-verdict.ts'

/** An event that was answered with 202. Times by `performance.now()`. */
export type Published = {
  n: number
  organization: string
  type: string
  /** The answered id of the event. */
  id: string
  deliveries: number
  begunAt: number
  answeredAt: number
}

export type PublisherOptions = {
  organization: string
  link: PatientLink
  api: ResourceWriter
  ledger: Ledger
  /** REST events per second. */
  perSecond: number
  /** False while Davit is far behind. */
  mayGoOn: () => boolean
  /** Returns the next number of an event. */
  nextNumber: () => number
  random: SeededRandom
}

const NOTE_EVERY_MS = [400, 1200] as const
const AGAIN_MS = 200
/** Maximum number of unanswered requests. */
const MOST_OPEN = 40
const STEADY_SHARE = 0.6
/** Share of events with a payload that is too long for each delivery's object, which refers to the log instead. */
const LONG_SHARE = 0.04
const LONG_CHARS = [17_000, 24_000] as const

export class FleetPublisher {
  readonly published: Published[] = []
  /** Numbers of the WebhookEvents in the order of their creation. */
  readonly notes: number[] = []
  readonly #options: PublisherOptions
  readonly #open = new Set<Promise<void>>()
  #deliveries = 0
  #ended = false
  #loops: Promise<void>[] = []

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  get organization(): string {
    return this.#options.organization
  }

  /** Number of deliveries of its REST events. */
  get deliveries(): number {
    return this.#deliveries
  }

  start(): void {
    this.#loops = [this.#publishForEver(), this.#noteForEver()]
  }

  /** Resolves when everything that was begun is accepted. */
  async stop(): Promise<void> {
    this.#ended = true
    await Promise.all(this.#loops)
    await Promise.all(this.#open)
  }

  async #publishForEver(): Promise<void> {
    const { perSecond, random, mayGoOn, nextNumber } = this.#options
    while (!this.#ended) {
      await sleep(random.between(0, 2000 / perSecond))
      const type = random.chance(STEADY_SHARE) ? EVENT_TYPES.steady : EVENT_TYPES.troubled
      if (this.#ended || !mayGoOn() || this.#open.size >= MOST_OPEN) continue
      const request = this.#publish(nextNumber(), type)
      this.#open.add(request)
      void request.then(() => this.#open.delete(request))
    }
  }

  async #publish(n: number, type: string): Promise<void> {
    const { organization, link, ledger, random } = this.#options
    const pad = random.chance(LONG_SHARE) ? 'x'.repeat(Math.round(random.between(...LONG_CHARS))) : ''
    const begunAt = performance.now()
    const path = `/organizations/${organization}/events`
    const body = { type, data: { n, text: 'Grüße, 😀', pad } }
    const answer = await link.ask({ method: 'POST', path, body, idempotencyKey: `event-${n}` }, n)
    if (!answer) return
    if (answer.status >= 300) {
      ledger.complain(`an event was answered with ${answer.status} ${JSON.stringify(answer.json)}`)
      return
    }
    const id = String(answer.json.eventId)
    const deliveries = Number(answer.json.deliveries)
    this.#deliveries += deliveries
    this.published.push({ n, organization, type, id, deliveries, begunAt, answeredAt: performance.now() })
  }

  async #noteForEver(): Promise<void> {
    const { random, mayGoOn, nextNumber } = this.#options
    while (!this.#ended) {
      await sleep(random.between(...NOTE_EVERY_MS))
      if (!this.#ended && mayGoOn()) await this.#note(nextNumber())
    }
  }

  async #note(n: number): Promise<void> {
    const { api, organization } = this.#options
    const object = {
      apiVersion: API_VERSION,
      kind: webhookEventKind.kind,
      metadata: { namespace: organization, name: nameOfNote(n) },
      spec: { type: EVENT_TYPES.noted, dataText: `{"n":${n}}` },
    }
    for (;;) {
      try {
        await api.create(webhookEvents, object)
        break
      } catch (error) {
        if (isApiError(error, 'AlreadyExists')) break
        await sleep(AGAIN_MS)
      }
    }
    this.notes.push(n)
  }
}
