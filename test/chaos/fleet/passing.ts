/**
 * Endpoints that are created and deleted over REST during the run: each gets events, and is deleted with its waiting deliveries.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answered, PatientLink } from '../rest-server/patient-link.ts'
import type { SeededRandom } from '../seeded-random.ts'
import type { Pause } from '../toggler.ts'
import { EVENT_TYPES, type FleetEndpoint } from './endpoints.ts'

export type PassingOptions = {
  organization: string
  link: PatientLink
  receiverUrl: string
  random: SeededRandom
}

/** `id`: the endpoint's id in REST. */
type Stay = { id: string; endpoint: FleetEndpoint; comes: Pause; goes?: Pause }

/** Before the next one is created, and until it is deleted. */
const AWAY_MS = [500, 8000] as const
const STAYS_MS = [2000, 20_000] as const
const NEVER = Number.POSITIVE_INFINITY

export class Passing {
  /** Names in the cluster, and their counterparts at the receivers. */
  readonly aliases = new Map<string, string>()
  /** Deleted ones without an answer that controllers have stopped. */
  readonly unsure = new Set<string>()
  readonly #options: PassingOptions
  readonly #stays: Stay[] = []
  readonly #ended = new AbortController()
  #loop: Promise<void> = Promise.resolve()

  constructor(options: PassingOptions) {
    this.#options = options
  }

  get endpoints(): FleetEndpoint[] {
    return this.#stays.map(({ endpoint }) => endpoint)
  }

  /** The periods in which each did not exist. */
  get pauses(): [string, Pause[]][] {
    return this.#stays.map(({ endpoint, comes, goes }) => [endpoint.name, goes ? [comes, goes] : [comes]])
  }

  /** Deleted ones: their deliveries in progress were canceled. */
  get deleted(): string[] {
    return this.#stays.flatMap(({ endpoint, goes }) => (goes ? [endpoint.name] : []))
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Resolves when the last creation or deletion is done. */
  async stop(): Promise<void> {
    this.#ended.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { random } = this.#options
    const { signal } = this.#ended
    const wait = async ([least, most]: readonly [number, number]) =>
      await sleep(random.between(least, most), undefined, { signal }).catch(() => undefined)
    while (!signal.aborted) {
      await wait(AWAY_MS)
      const stay = await this.#make()
      if (!stay) continue
      await wait(STAYS_MS)
      // The last one stays: its deliveries must end like all others.
      if (!signal.aborted) await this.#remove(stay)
    }
  }

  async #make(): Promise<Stay | undefined> {
    const { organization, link, receiverUrl, random } = this.#options
    const turn = this.#stays.length
    const name = `passing-${organization}-${turn}`
    const ordered = random.chance(0.5)
    const types = [EVENT_TYPES.troubled]
    const body = { url: `${receiverUrl}/${name}`, eventTypes: types, ordered }
    const to = performance.now()
    const path = `/organizations/${organization}/webhooks`
    const answer = await link.ask({ method: 'POST', path, body, idempotencyKey: name }, turn)
    if (!answer) return undefined
    const id = idIn(answer)
    this.aliases.set(id.replace(/^whe_/, ''), name)
    const comes = { asked: -NEVER, from: -NEVER, to, over: performance.now() }
    const more = ordered ? { ordered } : {}
    const stay: Stay = {
      id,
      comes,
      endpoint: { name, organization, types, toggled: true, ...more },
    }
    this.#stays.push(stay)
    return stay
  }

  async #remove(stay: Stay): Promise<void> {
    const { organization, link } = this.#options
    const path = `/organizations/${organization}/webhooks/${stay.id}`
    const asked = performance.now()
    const goes = { asked, from: NEVER, to: NEVER, over: NEVER }
    stay.goes = goes
    const answer = await link.ask({ method: 'DELETE', path }, this.#stays.length)
    // A repeat is answered with 404 when it is gone for all REST servers, whatever controllers know.
    if (answer?.status === 404) this.unsure.add(stay.endpoint.name)
    if (answer?.status === 204 || answer?.status === 404) goes.from = performance.now()
    else throw new Error(`DELETE ${path}: ${answer?.status} ${JSON.stringify(answer?.json)}`)
  }
}

/** @throws Error if no endpoint was created */
function idIn({ status, json }: Answered): string {
  const { endpointId } = (json.endpoint ?? {}) as { endpointId?: unknown }
  if (status !== 201 || typeof endpointId !== 'string')
    throw new Error(`POST of an endpoint: ${status} ${JSON.stringify(json)}`)
  return endpointId
}
