import { FakeClock } from './fake-clock.ts'

/** Timers that are further away are limits of what is under way, and not what it waits for. */
const LONGEST_RUSH_MS = 5000
/** Real time for what is under way, such as a request to a server of the test. */
const TURN_MS = 2

/** Time that goes on by itself to the next thing to do, as fast as the work between allows. */
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

  /** What `work` gives or throws, while the time passes that it waits for. */
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
