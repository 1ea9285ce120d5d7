import type { Clock } from '../lib/ports-clock.ts'

export type ReadYourWritesMonitorOptions = {
  clock: Clock
  /** Everything in the log up to this version was shown by its watch. */
  shown: () => number
  /** Called when the watch shows nothing although there is something, and again, less and less often, while it does not. */
  onSilence: () => void
}

/** The watch shows an append within milliseconds. */
const SHOWN_WITHIN_MS = 2000
/** An API server that has just started needs many seconds for a first list; whoever begins anew meanwhile never has one. */
const LONGEST_PATIENCE_MS = 32_000
/** A timer that is so late tells that the process stood still, and what came meanwhile is not handled yet. */
const STOOD_STILL_MS = 500

/**
 * Finds a watch that is dead without knowing it, as when a connection is cut off without a word: what this process has
 * appended is in the log for sure, so the watch of the log has to come there.
 */
export class ReadYourWritesMonitor {
  readonly #options: ReadYourWritesMonitorOptions
  /** The newest append. */
  #appended = 0
  /** What was not shown in time. */
  #late = 0
  #cancel: (() => void) | undefined
  /** How long the watch was given when it last began anew, and until when. */
  #patienceMs = SHOWN_WITHIN_MS
  #patientUntil = 0

  constructor(options: ReadYourWritesMonitorOptions) {
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
      if (shown() < awaited) this.#late = awaited
      // A watch that gets on, only slowly, is not helped by beginning anew.
      if (shown() !== before) this.#patienceMs = SHOWN_WITHIN_MS
      else if (shown() < awaited && clock.monotonic() >= this.#patientUntil) {
        this.#patienceMs = Math.min(2 * this.#patienceMs, LONGEST_PATIENCE_MS)
        this.#patientUntil = clock.monotonic() + this.#patienceMs
        onSilence()
      }
      if (shown() < this.#appended) this.#lookLater()
    })
  }
}
