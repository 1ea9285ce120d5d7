import type { Clock } from '../../ports/clock.ts'

export type AppendCheckOptions = {
  clock: Clock
  /** Everything in the log up to this version was shown by its watch. */
  shown: () => number
  /** Called when the watch shows nothing although there is something, and again while it does not. */
  onSilence: () => void
}

/** The watch shows an append within milliseconds. */
const SHOWN_WITHIN_MS = 2000
/** A timer that is so late tells that the process stood still, and what came meanwhile is not handled yet. */
const STOOD_STILL_MS = 500

/**
 * Finds a watch that is dead without knowing it, as when a connection is cut off without a word: what this process has
 * appended is in the log for sure, so the watch of the log has to come there.
 */
export class AppendCheck {
  readonly #options: AppendCheckOptions
  /** The newest append. */
  #appended = 0
  /** What was not shown in time. */
  #late = 0
  #cancel: (() => void) | undefined

  constructor(options: AppendCheckOptions) {
    this.#options = options
  }

  /** Whether something is not shown that should be by now. */
  get isBehind(): boolean {
    return this.#options.shown() < this.#late
  }

  /** @param version of the segment that was written */
  appended(version: number): void {
    this.#appended = Math.max(this.#appended, version)
    if (!this.#cancel) this.#lookLater()
  }

  stop(): void {
    this.#cancel?.()
  }

  #lookLater(): void {
    const { clock, shown, onSilence } = this.#options
    const [awaited, before] = [this.#appended, shown()]
    const due = clock.monotonic() + SHOWN_WITHIN_MS
    this.#cancel = clock.after(SHOWN_WITHIN_MS, () => {
      this.#cancel = undefined
      if (clock.monotonic() - due > STOOD_STILL_MS) return this.#lookLater()
      if (shown() < awaited) {
        this.#late = awaited
        // A watch that gets on, only slowly, is not helped by beginning anew.
        if (shown() === before) onSilence()
      }
      if (shown() < this.#appended) this.#lookLater()
    })
  }
}
