/**
 * Attempts under way, and the signals that give up on them: one listener for each signal, and places in arrays. Listeners of a signal
 * are a linked list, and the tables that a Set outgrows are one too. Once a link of such a list has grown old, V8's quick collections keep
 * whatever came behind it, with all that hangs on it, until the next full one: at thousands of attempts a second that was
 * most of what they did.
 */
export class ActiveAttempts<A> {
  readonly #giveUp: (attempt: A) => void
  readonly #attempts: (A | undefined)[] = []
  readonly #signals: (AbortSignal | undefined)[] = []
  readonly #free: number[] = []
  readonly #heard = new WeakSet<AbortSignal>()

  /** @param giveUp may call what `add` gave */
  constructor(giveUp: (attempt: A) => void) {
    this.#giveUp = giveUp
  }

  /** @param signal not aborted, and one of few: it is heard for as long as it lives. @returns to be called when the attempt has ended */
  add(attempt: A, signal: AbortSignal | undefined): () => void {
    const place = this.#free.pop() ?? this.#attempts.length
    this.#attempts[place] = attempt
    this.#signals[place] = signal
    if (signal) this.#hear(signal)
    let left = false
    return () => {
      if (left) return
      left = true
      this.#attempts[place] = undefined
      this.#signals[place] = undefined
      this.#free.push(place)
    }
  }

  cancelAll(): void {
    for (const attempt of this.#attempts.slice()) if (attempt !== undefined) this.#giveUp(attempt)
  }

  #hear(signal: AbortSignal): void {
    if (this.#heard.has(signal)) return
    this.#heard.add(signal)
    signal.addEventListener('abort', () => this.#giveUpOn(signal), { once: true })
  }

  #giveUpOn(signal: AbortSignal): void {
    const given = this.#attempts.filter((_, place) => this.#signals[place] === signal)
    for (const attempt of given) if (attempt !== undefined) this.#giveUp(attempt)
  }
}
