/**
 * One client of the REST servers: it publishes, pings, redelivers, creates endpoints, rotates their secrets, and repeats
 * requests.
 */
import { isDeepStrictEqual } from 'node:util'
import type { SeededRandom } from '../seeded-random.ts'
import type { Accepted, Ledger, Operation } from './ledger.ts'
import type { Answered, Asked, PatientLink } from './patient-link.ts'
import { EVENT_TYPES, type Scene, subscribersOf } from './scene.ts'

export type ChaosClientOptions = {
  /** Counts from 0. */
  number: number
  link: PatientLink
  scene: Scene
  ledger: Ledger
  random: SeededRandom
}

/** An answered request that can be repeated. */
type Keyed = { asked: Asked; answer: Answered }
type Event = { n: number; type: string; id: string }
type Made = { id: string; rolls: number }

const EVENTS_OF_A_CLIENT = 1_000_000
const MOST_REMEMBERED = 50
/** One less than the maximum number of active secrets. */
const MOST_ROLLS = 4
/** Share of the answers with a delivery that are looked up. */
const READ_SHARE = 0.1
/** Share of the events for the ordered endpoint. */
const ORDERED_SHARE = 0.15

export class ChaosClient {
  readonly #options: ChaosClientOptions
  readonly #events: Event[] = []
  readonly #keyed: Keyed[] = []
  readonly #made: Made[] = []
  /** The actions and their shares; the last one gets the rest. */
  readonly #acts = [
    { share: 0.42, ask: () => this.#publish() },
    { share: 0.15, ask: () => this.#publishOnce() },
    { share: 0.06, ask: () => this.#publish({ twice: true }) },
    { share: 0.08, ask: () => this.#ping() },
    { share: 0.08, ask: () => this.#redeliver() },
    { share: 0.02, ask: () => this.#create() },
    { share: 0.04, ask: () => this.#roll() },
    { share: 1, ask: () => this.#repeat() },
  ]
  #requests = 0

  constructor(options: ChaosClientOptions) {
    this.#options = options
  }

  /** Sends one request, or the same one twice; resolves when it is answered. */
  async act(): Promise<void> {
    let chance = this.#options.random.fraction()
    for (const { share, ask } of this.#acts) {
      chance -= share
      if (chance < 0) return await ask()
    }
  }

  async #publish({ twice = false } = {}): Promise<void> {
    const { n, type, asked } = this.#event()
    const keyed = { ...asked, idempotencyKey: `event-${n}` }
    const home = this.#home
    const sent = [this.#ask(keyed, home), ...(twice ? [this.#ask(keyed, home + 1)] : [])]
    const [answer, other] = await Promise.all(sent)
    if (!answer) return
    if (other) this.#compare(keyed, answer, other)
    this.#remember({ asked: keyed, answer })
    await this.#published({ n, type }, answer, keyed.idempotencyKey)
  }

  async #publishOnce(): Promise<void> {
    const { n, type, asked } = this.#event()
    const answer = await this.#ask(asked, this.#home)
    if (answer) await this.#published({ n, type }, answer)
    else this.#options.ledger.unknown.add(n)
  }

  #event() {
    const { scene, random, number } = this.#options
    this.#requests += 1
    const n = number * EVENTS_OF_A_CLIENT + this.#requests
    const type = random.chance(ORDERED_SHARE) ? EVENT_TYPES.ordered : EVENT_TYPES.usual
    const body = { type, data: { n, text: 'Grüße, 😀' } }
    const asked: Asked = { method: 'POST', path: `${scene.path}/events`, body }
    return { n, type, asked }
  }

  async #published({ n, type }: Omit<Event, 'id'>, answer: Answered, key?: string): Promise<void> {
    const id = String(answer.json.eventId)
    const subscribers = subscribersOf(type)
    if (answer.json.deliveries !== subscribers.length)
      this.#options.ledger.complain(`an event has ${answer.json.deliveries} deliveries`)
    this.#accept('publish', { event: n, type, id, ...(key === undefined ? {} : { key }) })
    if (this.#events.push({ n, type, id }) > MOST_REMEMBERED) this.#events.shift()
    await this.#look(subscribers[0] ?? '', id, answer)
  }

  async #ping(): Promise<void> {
    const { scene, random } = this.#options
    const names = Object.keys(scene.endpoints)
    const endpoint = names[Math.floor(random.fraction() * names.length)] ?? ''
    const path = `${this.#pathOf(endpoint)}/ping`
    const answer = await this.#askKeyed({ method: 'POST', path })
    if (!answer) return
    const id = String(answer.json.webhookId)
    this.#accept('ping', { endpoint, id, key: answer.key })
    await this.#look(endpoint, id, answer)
  }

  async #redeliver(): Promise<void> {
    const { random } = this.#options
    const event = this.#events[Math.floor(random.fraction() * this.#events.length)]
    if (!event) return
    const endpoint = subscribersOf(event.type)[0] ?? ''
    const path = `${this.#pathOf(endpoint)}/deliveries/${event.id}/redeliver`
    const answer = await this.#askKeyed({ method: 'POST', path })
    if (!answer) return
    const id = String(answer.json.webhookId)
    this.#accept('redeliver', { endpoint, event: event.n, id, key: answer.key })
    await this.#look(endpoint, id, answer)
  }

  async #create(): Promise<void> {
    const { scene } = this.#options
    const path = `${scene.path}/webhooks`
    const answer = await this.#askKeyed({ method: 'POST', path }, (description) => ({
      url: scene.urlOfMade,
      eventTypes: ['member.joined'],
      description,
    }))
    const id = (answer?.json.endpoint as { endpointId?: string } | undefined)?.endpointId
    if (!answer || id === undefined) return
    this.#accept('create', { id, key: answer.key, ...visibleIn(answer) })
    this.#made.push({ id, rolls: 0 })
  }

  async #roll(): Promise<void> {
    const made = this.#made.find(({ rolls }) => rolls < MOST_ROLLS)
    if (!made) return await this.#create()
    const path = `${this.#options.scene.path}/webhooks/${made.id}/secret/roll`
    const answer = await this.#askKeyed({ method: 'POST', path })
    if (!answer) return
    made.rolls += 1
    this.#accept('roll', { endpoint: made.id, id: made.id, key: answer.key, ...visibleIn(answer) })
  }

  /** Repeats a request at another REST server than the one that answered, if there is one. */
  async #repeat(): Promise<void> {
    const { random, ledger } = this.#options
    const keyed = this.#keyed[Math.floor(random.fraction() * this.#keyed.length)]
    if (!keyed) return
    const answer = await this.#ask(keyed.asked, keyed.answer.by + 1)
    if (!answer) return
    ledger.repeated += 1
    if (!answer.replayed) ledger.complain(`a repeat of ${keyed.asked.path} does not say that it is one`)
    this.#compare(keyed.asked, keyed.answer, answer)
  }

  /** Sends a request with a new idempotency key. @param bodyOf the body, which may contain the key */
  async #askKeyed(
    asked: Asked,
    bodyOf?: (key: string) => unknown,
  ): Promise<(Answered & { key: string }) | undefined> {
    const { number } = this.#options
    this.#requests += 1
    const key = `request-${number}-${this.#requests}`
    const keyed = { ...asked, idempotencyKey: key, ...(bodyOf ? { body: bodyOf(key) } : {}) }
    const answer = await this.#ask(keyed, this.#home)
    if (!answer) return undefined
    this.#remember({ asked: keyed, answer })
    return { ...answer, key }
  }

  /** @returns a 2xx answer; another answer is recorded as wrong */
  async #ask(asked: Asked, first: number): Promise<Answered | undefined> {
    const answer = await this.#options.link.ask(asked, first)
    if (!answer || answer.status < 300) return answer
    const { code, detail = '' } = answer.json
    this.#options.ledger.complain(`${asked.method} ${asked.path}: ${answer.status} ${code} ${detail}`)
    return undefined
  }

  /** An answered delivery must be readable immediately, at the server that answered. */
  async #look(endpoint: string, deliveryId: string, { by }: Answered): Promise<void> {
    const { link, ledger, random } = this.#options
    if (!random.chance(READ_SHARE)) return
    const path = `${this.#pathOf(endpoint)}/deliveries/${deliveryId}`
    const read = await link.askOnly({ method: 'GET', path }, by)
    if (!read) return
    ledger.read += 1
    if (read.status !== 200) ledger.complain(`GET ${path}: ${read.status}, right after it was accepted`)
  }

  #compare({ path }: Asked, first: Answered, second: Answered): void {
    const same =
      first.status === second.status &&
      isDeepStrictEqual(withoutSecret(first.json), withoutSecret(second.json))
    if (!same) {
      const words = [first, second].map(
        ({ status, json }) => `${status} ${JSON.stringify(withoutSecret(json))}`,
      )
      this.#options.ledger.complain(`a repeat of ${path} is answered otherwise: ${words.join(' and ')}`)
    }
  }

  #remember(keyed: Keyed): void {
    if (this.#keyed.push(keyed) > MOST_REMEMBERED) this.#keyed.shift()
  }

  #accept(operation: Operation, accepted: Omit<Accepted, 'operation' | 'client'>): void {
    this.#options.ledger.accepted.push({ operation, client: this.#options.number, ...accepted })
  }

  /** The REST server that it tries first. */
  get #home(): number {
    return this.#options.number % this.#options.link.servers
  }

  #pathOf(endpoint: string): string {
    const { path, endpoints } = this.#options.scene
    return `${path}/webhooks/${endpoints[endpoint]}`
  }
}

function visibleIn({ json: { secret } }: Answered): { secret?: string } {
  return typeof secret === 'string' ? { secret } : {}
}

/** A secret is returned only once. */
function withoutSecret({ secret: _, ...rest }: Record<string, unknown>): Record<string, unknown> {
  return rest
}
