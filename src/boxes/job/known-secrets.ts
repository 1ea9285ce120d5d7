import type { SecretText } from '../../lib/secret-text.ts'
import { redactAndShorten, redactSecrets } from './redaction.ts'

/** Every secret that this bake has had in its hands, so that none of them is in anything that it shows. */
export class SecretRedactor {
  readonly #known: SecretText[] = []

  add(secret: SecretText): void {
    this.#known.push(secret)
  }

  /** What may be shown of a text. */
  redact(text: string): string {
    return redactSecrets(text, this.#texts())
  }

  /** So much of it as a status takes. */
  redactForStatus(text: string): string {
    return redactAndShorten(text, this.#texts())
  }

  #texts(): string[] {
    return this.#known.map((secret) => secret.reveal())
  }
}
