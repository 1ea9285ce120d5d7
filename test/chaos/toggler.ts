/** Disables and enables an endpoint periodically, and records the acknowledgements. */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type EndpointState,
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpoints,
} from '../../src/apis/webhook-endpoint.ts'
import type { ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import type { SeededRandom } from './seeded-random.ts'

/**
 * Times by `performance.now()`: from the acknowledgement of the disabling to the request to enable; and around it, from the
 * request to disable to the acknowledgement of the enabling.
 */
export type Pause = { asked: number; from: number; to: number; over: number }

export type TogglerOptions = {
  /** Resolves when it is acknowledged, after as many retries as necessary. */
  set: (state: EndpointState) => Promise<void>
  random: SeededRandom
  /** Duration of some of the pauses in milliseconds; absent: all have the same distribution. */
  long?: readonly [number, number]
}

const POLL_MS = 50
const ENABLED_MS = [1000, 5000] as const
const DISABLED_MS = [300, 1500] as const
/** Share of long pauses, which cover requests of a process that was away meanwhile. */
const LONG_SHARE = 0.25

/** With kubectl, waiting for the acknowledgement in the status. */
export function switchOf(
  api: ResourceReader & ResourceWriter,
  endpoint: { namespace: string; name: string },
): TogglerOptions['set'] {
  return async (state) => {
    const patched = await untilAnswered(() => api.patch(webhookEndpoints, endpoint, { spec: { state } }))
    const wanted = patched.metadata.generation ?? 0
    for (;;) {
      const { status } = await untilAnswered(() => api.get(webhookEndpoints, endpoint))
      if (status?.state === state && status.observedGeneration >= wanted) return
      await sleep(POLL_MS)
    }
  }
}

async function untilAnswered(ask: () => Promise<unknown>): Promise<WebhookEndpoint> {
  for (;;) {
    try {
      return webhookEndpoint.parse(await ask())
    } catch {
      await sleep(POLL_MS)
    }
  }
}

export class Toggler {
  readonly pauses: Pause[] = []
  readonly #options: TogglerOptions
  #enabled = true
  readonly #ending = new AbortController()
  #loop: Promise<void> = Promise.resolve()

  constructor(options: TogglerOptions) {
    this.#options = options
  }

  /** Whether it gets an event that is accepted now. */
  get enabled(): boolean {
    return this.#enabled
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Leaves it enabled. */
  async stop(): Promise<void> {
    this.#ending.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { random, long } = this.#options
    while (!this.#ending.signal.aborted) {
      await this.#wait(random.between(...ENABLED_MS))
      this.#enabled = false
      const asked = performance.now()
      await this.#options.set('disabled')
      const from = performance.now()
      await this.#wait(random.between(...(long && random.chance(LONG_SHARE) ? long : DISABLED_MS)))
      const to = performance.now()
      await this.#options.set('enabled')
      this.pauses.push({ asked, from, to, over: performance.now() })
      this.#enabled = true
    }
  }

  /** Ends early when it is stopped. */
  async #wait(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#ending.signal }).catch(() => undefined)
  }
}

/** How long after the acknowledgement an attempt arrived, in milliseconds; 0 if none did. */
export function latestInPauses(
  pauses: readonly Pick<Pause, 'from' | 'to'>[],
  times: readonly number[],
): number {
  const late = times.flatMap((at) =>
    pauses.filter(({ from, to }) => at > from && at < to).map(({ from }) => at - from),
  )
  return Math.max(0, ...late)
}
