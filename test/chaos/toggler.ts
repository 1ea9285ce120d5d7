/** Disables and enables an endpoint again and again, and knows when each was acknowledged. */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type EndpointState,
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpoints,
} from '../../src/api/webhook-endpoint.ts'
import type { ResourceReader, ResourceWriter } from '../../src/ports/kubernetes.ts'
import type { SeededRandom } from './seeded-random.ts'

/**
 * Times by `performance.now()`: from the acknowledgement of the disabling to the wish to enable; and around it, from the wish to
 * disable to the acknowledgement of the enabling.
 */
export type Pause = { asked: number; from: number; to: number; over: number }

export type TogglerOptions = {
  /** Resolves when it is acknowledged, however often that has to be asked for. */
  set: (state: EndpointState) => Promise<void>
  random: SeededRandom
}

const POLL_MS = 50

/** With kubectl, waiting for the status that says so. */
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
  #ended = false
  #loop: Promise<void> = Promise.resolve()

  constructor(options: TogglerOptions) {
    this.#options = options
  }

  /** Whether an event that is accepted now is for it. */
  get enabled(): boolean {
    return this.#enabled
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Leaves it enabled. */
  async stop(): Promise<void> {
    this.#ended = true
    await this.#loop
  }

  async #run(): Promise<void> {
    const { random } = this.#options
    while (!this.#ended) {
      await sleep(random.between(1000, 5000))
      this.#enabled = false
      const asked = performance.now()
      await this.#options.set('disabled')
      const from = performance.now()
      await sleep(random.between(300, 1500))
      const to = performance.now()
      await this.#options.set('enabled')
      this.pauses.push({ asked, from, to, over: performance.now() })
      this.#enabled = true
    }
  }
}

/** How long after the acknowledgement an attempt still came, in milliseconds; 0 when none did. */
export function latestInPauses(
  pauses: readonly Pick<Pause, 'from' | 'to'>[],
  times: readonly number[],
): number {
  const late = times.flatMap((at) =>
    pauses.filter(({ from, to }) => at > from && at < to).map(({ from }) => at - from),
  )
  return Math.max(0, ...late)
}
