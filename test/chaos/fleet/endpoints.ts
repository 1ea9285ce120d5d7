/** Organizations of a fleet, their endpoints, and the behavior of their receivers. */
import type { Manner } from '../receivers.ts'
import type { SeededRandom } from '../seeded-random.ts'

export const EVENT_TYPES = {
  /** For endpoints whose receivers fail, hang, and recover. */
  troubled: 'environment.started',
  /** For endpoints with healthy receivers. */
  steady: 'environment.stopped',
  /** Created as WebhookEvents. */
  noted: 'member.joined',
} as const

type EndpointKind = {
  types: readonly string[]
  ordered?: true
  /** Its receiver is always healthy. */
  steady?: true
  /** It is disabled and enabled periodically. */
  toggled?: true
}

const { troubled, steady, noted } = EVENT_TYPES

const KINDS: Readonly<Record<string, EndpointKind>> = {
  'ordered-both': { types: [troubled, noted], ordered: true },
  ordered: { types: [troubled], ordered: true },
  one: { types: [troubled] },
  both: { types: [troubled, noted] },
  'steady-ordered': { types: [steady], ordered: true, steady: true },
  'steady-one': { types: [steady], steady: true },
  'steady-two': { types: [steady], steady: true },
  paused: { types: [steady], toggled: true },
}

/** Names are unique across organizations. */
export type FleetEndpoint = EndpointKind & { name: string; organization: string }

export function endpointsOf(organizations: readonly string[]): FleetEndpoint[] {
  return organizations.flatMap((organization) =>
    Object.entries(KINDS).map(([kind, rest]) => ({ ...rest, name: `${kind}-${organization}`, organization })),
  )
}

/** Shares of the behaviors of a mostly healthy receiver. */
const NOW_AND_THEN: readonly { manner: Manner; share: number }[] = [
  { manner: 'error', share: 0.03 },
  { manner: 'reset', share: 0.01 },
  { manner: 'half', share: 0.005 },
  { manner: 'slow', share: 0.03 },
  { manner: 'hang', share: 0.002 },
]
const BAD_TIMES: readonly Manner[] = ['error', 'error', 'reset', 'half', 'slow', 'hang']
const GOOD_MS = [6000, 40_000] as const
const BAD_MS = [300, 7000] as const

type Mood = { isBad: boolean; manner: Manner; until: number }

/** Good and bad periods of each endpoint's receiver. */
export class Moods {
  readonly #random: SeededRandom
  readonly #steady: ReadonlySet<string>
  readonly #moods = new Map<string, Mood>()
  #isOver = false

  constructor(endpoints: readonly FleetEndpoint[], random: SeededRandom) {
    this.#random = random
    this.#steady = new Set(endpoints.filter(({ steady }) => steady).map(({ name }) => name))
  }

  /** Makes all receivers healthy from now on. */
  end(): void {
    this.#isOver = true
  }

  mannerOf(endpoint: string): Manner {
    if (this.#isOver || this.#steady.has(endpoint)) return 'ok'
    const mood = this.#moodOf(endpoint, performance.now())
    return mood.isBad ? mood.manner : this.#nowAndThen()
  }

  #moodOf(endpoint: string, now: number): Mood {
    let mood = this.#moods.get(endpoint)
    while (!mood || mood.until < now) {
      const isBad = mood ? !mood.isBad : false
      const [shortest, longest] = isBad ? BAD_MS : GOOD_MS
      const manner = BAD_TIMES[Math.floor(this.#random.fraction() * BAD_TIMES.length)] ?? 'error'
      mood = { isBad, manner, until: (mood?.until ?? now) + this.#random.between(shortest, longest) }
    }
    this.#moods.set(endpoint, mood)
    return mood
  }

  #nowAndThen(): Manner {
    let chance = this.#random.fraction()
    for (const { manner, share } of NOW_AND_THEN) {
      chance -= share
      if (chance < 0) return manner
    }
    return 'ok'
  }
}
