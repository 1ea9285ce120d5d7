/** Disables and enables an endpoint again and again, and knows when each was acknowledged. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../src/api/webhook-endpoint.ts'
import type { ResourceReader, ResourceWriter } from '../../src/ports/kubernetes.ts'
import type { SeededRandom } from './seeded-random.ts'

/** Times by `performance.now()`: from the acknowledgement of the disabling to the wish to enable. */
export type Pause = { from: number; to: number }

export type TogglerOptions = {
  api: ResourceReader & ResourceWriter
  endpoint: { namespace: string; name: string }
  random: SeededRandom
}

const POLL_MS = 50

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
      await this.#set('disabled')
      const from = performance.now()
      await sleep(random.between(300, 1500))
      const pause = { from, to: performance.now() }
      await this.#set('enabled')
      this.pauses.push(pause)
      this.#enabled = true
    }
  }

  async #set(state: 'enabled' | 'disabled'): Promise<void> {
    const { api, endpoint } = this.#options
    const patched = await this.#untilAnswered(() =>
      api.patch(webhookEndpoints, endpoint, { spec: { state } }),
    )
    const wanted = patched.metadata.generation ?? 0
    for (;;) {
      const { status } = await this.#untilAnswered(() => api.get(webhookEndpoints, endpoint))
      if (status?.state === state && status.observedGeneration >= wanted) return
      await sleep(POLL_MS)
    }
  }

  async #untilAnswered(ask: () => Promise<unknown>): Promise<WebhookEndpoint> {
    for (;;) {
      try {
        return webhookEndpoint.parse(await ask())
      } catch {
        await sleep(POLL_MS)
      }
    }
  }
}

/** How long after the acknowledgement an attempt still came, in milliseconds; 0 when none did. */
export function latestInPauses(pauses: readonly Pause[], times: readonly number[]): number {
  const late = times.flatMap((at) =>
    pauses.filter(({ from, to }) => at > from && at < to).map(({ from }) => at - from),
  )
  return Math.max(0, ...late)
}
