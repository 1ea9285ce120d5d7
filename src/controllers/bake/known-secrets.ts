import { cleanWords, toolWords } from '../../domain/tool-words.ts'
import type { SecretText } from '../../ports/secret-text.ts'

/** Every secret that this bake has had in its hands, so that none of them is in anything that it shows. */
export class KnownSecrets {
  readonly #known: SecretText[] = []

  add(secret: SecretText): void {
    this.#known.push(secret)
  }

  /** What may be shown of a text. */
  clean(text: string): string {
    return cleanWords(text, this.#texts())
  }

  /** So much of it as a status takes. */
  words(text: string): string {
    return toolWords(text, this.#texts())
  }

  #texts(): string[] {
    return this.#known.map((secret) => secret.reveal())
  }
}
