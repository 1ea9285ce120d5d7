/** Time that stands still until a test moves it, and advances only while no request is on the wire. */
import { channel } from 'node:diagnostics_channel'
import { FakeClock, settle } from '../fake-clock.ts'

/** After this many rounds without a request on the wire, none will come by itself. */
const QUIET_ROUNDS = 2
/** Timers that become due within it send their requests together. */
const STEP_MS = 100

export class WireClock extends FakeClock {
  readonly #dues = new Set<{ due: number }>()
  readonly #onWire = new Set<unknown>()
  readonly #begin = (message: unknown) => void this.#onWire.add(requestOf(message))
  readonly #end = (message: unknown) => void this.#onWire.delete(requestOf(message))

  constructor(wall?: number) {
    super(wall)
    channel('http.client.request.start').subscribe(this.#begin)
    channel('http.client.response.finish').subscribe(this.#end)
    channel('http.client.request.error').subscribe(this.#end)
  }

  stop(): void {
    channel('http.client.request.start').unsubscribe(this.#begin)
    channel('http.client.response.finish').unsubscribe(this.#end)
    channel('http.client.request.error').unsubscribe(this.#end)
  }

  override after(ms: number, run: () => void): () => void {
    const timer = { due: this.monotonic() + ms }
    this.#dues.add(timer)
    const stop = super.after(ms, () => {
      this.#dues.delete(timer)
      run()
    })
    return () => {
      this.#dues.delete(timer)
      stop()
    }
  }

  override async elapse(ms: number): Promise<void> {
    const end = this.monotonic() + ms
    for (;;) {
      await this.#quiet()
      let next = end
      for (const { due } of this.#dues) next = Math.min(next, due)
      next = Math.min(end, Math.max(next, this.monotonic() + STEP_MS))
      await super.elapse(next - this.monotonic())
      if (next >= end) return await this.#quiet()
    }
  }

  async #quiet(): Promise<void> {
    for (let rounds = 0; rounds < QUIET_ROUNDS; rounds += 1) {
      await settle()
      await new Promise((resolve) => setTimeout(resolve, 0))
      if (this.#onWire.size > 0) rounds = 0
    }
  }
}

function requestOf(message: unknown): unknown {
  return (message as { request: unknown }).request
}
