/** Endpoints that come and go over REST while all else goes on: each is made, gets events, and is deleted with what waits for it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answered, PatientLink } from '../facade/patient-link.ts'
import type { SeededRandom } from '../seeded-random.ts'
import type { Pause } from '../toggler.ts'
import { EVENT_TYPES, type FleetEndpoint } from './endpoints.ts'

export type PassingOptions = {
  organization: string
  link: PatientLink
  receiverUrl: string
  random: SeededRandom
}

/** `id`: by which REST knows the endpoint. */
type Stay = { id: string; endpoint: FleetEndpoint; comes: Pause; goes?: Pause }

/** Before the next comes, and until it goes. */
const AWAY_MS = [500, 8000] as const
const STAYS_MS = [2000, 20_000] as const
const NEVER = Number.POSITIVE_INFINITY

export class Passing {
  /** Names in the cluster, and those by which receivers know them. */
  readonly aliases = new Map<string, string>()
  /** Those that are gone, where no answer said that controllers have stopped. */
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

  /** When each was not there. */
  get pauses(): [string, Pause[]][] {
    return this.#stays.map(({ endpoint, comes, goes }) => [endpoint.name, goes ? [comes, goes] : [comes]])
  }

  /** Those that were deleted: what had not ended then is canceled. */
  get deleted(): string[] {
    return this.#stays.flatMap(({ endpoint, goes }) => (goes ? [endpoint.name] : []))
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Resolves when the last one that was made has come or gone. */
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
      // The last one stays: what is left of it has to end like all else.
      if (!signal.aborted) await this.#remove(stay)
    }
  }

  async #make(): Promise<Stay | undefined> {
    const { organization, link, receiverUrl, random } = this.#options
    const turn = this.#stays.length
    const name = `passing-${organization}-${turn}`
    const ordered = random.chance(0.5)
    const deliveryLog = random.chance(0.5) ? 'Objects' : 'Segments'
    const types = [EVENT_TYPES.troubled]
    const body = { url: `${receiverUrl}/${name}`, eventTypes: types, ordered, deliveryLog }
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
      endpoint: { name, organization, types, deliveryLog, toggled: true, ...more },
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
    // A repeat is answered with 404 when it is gone for all facades, whatever controllers know.
    if (answer?.status === 404) this.unsure.add(stay.endpoint.name)
    if (answer?.status === 204 || answer?.status === 404) goes.from = performance.now()
    else throw new Error(`DELETE ${path}: ${answer?.status} ${JSON.stringify(answer?.json)}`)
  }
}

/** @throws Error when it is no endpoint that was made */
function idIn({ status, json }: Answered): string {
  const { endpointId } = (json.endpoint ?? {}) as { endpointId?: unknown }
  if (status !== 201 || typeof endpointId !== 'string')
    throw new Error(`POST of an endpoint: ${status} ${JSON.stringify(json)}`)
  return endpointId
}
