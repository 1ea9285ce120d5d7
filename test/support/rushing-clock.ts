import { FakeClock } from './fake-clock.ts'

/** Later timers are timeouts of work in progress, which does not wait for them. */
const LONGEST_RUSH_MS = 5000
/** Real time for work in progress, such as a request to a server of the test. */
const TURN_MS = 2

/** Time that advances by itself to the next timer, as fast as the work in between allows. */
export class RushingClock extends FakeClock {
  readonly #dues = new Set<{ due: number }>()

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

  /** Returns or throws the result of `work`, while its waiting time passes. */
  async rush<T>(work: Promise<T>): Promise<T> {
    let isOver = false
    const end = () => {
      isOver = true
    }
    work.then(end, end)
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, TURN_MS))
      const wait = Math.min(...[...this.#dues].map(({ due }) => due)) - this.monotonic()
      if (!isOver && wait <= LONGEST_RUSH_MS) await this.elapse(Math.max(0, wait))
    }
    return await work
  }
}
