const SHOWN = '[secret]'
/** What Node asks for when it prints an object. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom')

/** A secret on its way: it prints, logs and serializes as `[secret]`, and is read in the one place that sends it. */
export class SecretText {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  /** The secret itself, for the request that stores it. */
  reveal(): string {
    return this.#text
  }

  toString(): string {
    return SHOWN
  }

  toJSON(): string {
    return SHOWN
  }

  [INSPECT](): string {
    return SHOWN
  }
}
