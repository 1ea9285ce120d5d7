const PLACEHOLDER = '[secret]'
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
    return PLACEHOLDER
  }

  toJSON(): string {
    return PLACEHOLDER
  }

  [INSPECT](): string {
    return PLACEHOLDER
  }
}
