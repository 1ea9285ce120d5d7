/**
 * Publishes numbered events until it is stopped: through the log, like the REST server, and as WebhookEvents, like kubectl.
 * Failed writes are retried under the same name until they succeed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { derivedName } from '../../src/apis/ids.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEventKind, webhookEvents } from '../../src/apis/webhook-event.ts'
import { isApiError, type ResourceWriter } from '../../src/kube/client.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import type { Appended, EventLog } from '../../src/webhooks/log/store.ts'
import type { SeededRandom } from './seeded-random.ts'

export type Target = { name: string; uid: string }

export type PublisherOptions = {
  log: EventLog
  api: ResourceWriter
  organization: string
  /** Endpoints that get an event that is accepted now. */
  targets: () => readonly Target[]
  /** False while Davit is far behind. */
  mayGoOn: () => boolean
  /** Events through the log per second. */
  perSecond: number
  random: SeededRandom
}

/** Creates the WebhookEvent `event-<n>`, with its number as its data. @throws ApiError */
export async function publishNumber(api: ResourceWriter, organization: string, n: number): Promise<void> {
  await api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: webhookEventKind.kind,
    metadata: { namespace: organization, name: `event-${n}` },
    spec: { type: NOTE_TYPE, dataText: JSON.stringify({ n }) },
  })
}

/** An event whose acceptance was acknowledged. */
export type Acknowledged = { id: string; appended: Appended; body: string }

export const LOG_TYPE = 'chaos.counted'
export const NOTE_TYPE = 'chaos.noted'

const AGAIN_MS = 200
const NOTE_EVERY_MS = 300
/** Size of an occasional body that stays in its segment. */
const LARGE_BYTES = 20_000

export class Publisher {
  readonly acknowledged: Acknowledged[] = []
  /** Names of the WebhookEvents in the order of their creation. */
  readonly notes: string[] = []
  readonly #options: PublisherOptions
  readonly #appends = new Set<Promise<void>>()
  #published = 0
  #ended = false
  #loops: Promise<void>[] = []

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  /** Number of events begun through the log. */
  get published(): number {
    return this.#published
  }

  start(): void {
    this.#loops = [this.#publishForEver(), this.#noteForEver()]
  }

  /** Resolves when everything that was begun is accepted. */
  async stop(): Promise<void> {
    this.#ended = true
    await Promise.all(this.#loops)
    await Promise.all(this.#appends)
  }

  async #publishForEver(): Promise<void> {
    const { mayGoOn, perSecond, random } = this.#options
    while (!this.#ended) {
      await sleep((random.fraction() * 2000) / perSecond)
      if (!mayGoOn()) continue
      const append = this.#publish(this.#published)
      this.#published += 1
      this.#appends.add(append)
      void append.then(() => this.#appends.delete(append))
    }
  }

  async #publish(n: number): Promise<void> {
    const { log, organization, random } = this.#options
    const acceptedAt = Date.now()
    const name = derivedName(acceptedAt, `chaos ${n} ${organization}`)
    const filler = random.chance(0.02) ? `,"filler":"${'x'.repeat(LARGE_BYTES)}"` : ''
    const dataText = `{"n":${n},"text":"Grüße, 😀"${filler}}`
    const targets = this.#options.targets().map(({ name, uid }) => ({ name, uid }))
    const event = acceptEvent(
      { name, namespace: organization, type: LOG_TYPE, dataText, happenedAt: acceptedAt, key: name },
      targets,
    )
    for (;;) {
      try {
        const appended = await log.append([event])
        this.acknowledged.push({ id: `msg_${name}`, appended, body: event.event.payload })
        return
      } catch {
        // Whether it was written is unknown: the key makes the repeat harmless.
        await sleep(AGAIN_MS)
      }
    }
  }

  async #noteForEver(): Promise<void> {
    while (!this.#ended) {
      await sleep(NOTE_EVERY_MS)
      if (this.#options.mayGoOn()) await this.#note(`note-${this.notes.length}`)
    }
  }

  async #note(name: string): Promise<void> {
    const { api, organization } = this.#options
    const spec = { type: NOTE_TYPE, dataText: `{"note":${this.notes.length}}` }
    const metadata = { namespace: organization, name }
    for (;;) {
      try {
        await api.create(webhookEvents, {
          apiVersion: API_VERSION,
          kind: webhookEventKind.kind,
          metadata,
          spec,
        })
        break
      } catch (error) {
        if (isApiError(error, 'AlreadyExists')) break
        await sleep(AGAIN_MS)
      }
    }
    this.notes.push(name)
  }
}
