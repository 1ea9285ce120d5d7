/** Names of the OutcomeSegments that lines refer to, each held once and for as long as one does. */
import { copyString } from '../../lib/own-text.ts'

type Held = { name: string; references: number }

export class OutcomeNames {
  readonly #names: (Held | undefined)[] = []
  readonly #free: number[] = []

  /** Names held. */
  get size(): number {
    return this.#names.length - this.#free.length
  }

  /** A number for the name; each `hold` of it needs its `release`. */
  add(name: string): number {
    const number = this.#free.pop() ?? this.#names.length
    this.#names[number] = { name: copyString(name), references: 0 }
    return number
  }

  /** Undefined when nothing refers to it. */
  name(number: number): string | undefined {
    return this.#names[number]?.name
  }

  hold(number: number): void {
    const held = this.#names[number]
    if (held) held.references += 1
  }

  release(number: number): void {
    const held = this.#names[number]
    if (!held) return
    held.references -= 1
    if (held.references > 0) return
    this.#names[number] = undefined
    this.#free.push(number)
  }
}
