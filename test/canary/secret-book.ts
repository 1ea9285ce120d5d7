/** Every secret of a run, and the way that it takes into an account. */
import type { SeededRandom } from '../chaos/seeded-random.ts'
import { hurtingSecrets, hurtingShape, refusedSecrets } from './hurting-secrets.ts'

/** `kubectl`: by a Secret of its owner, which is in the cluster until it is stored; `rest`: never in the cluster. */
export type Way = 'kubectl' | 'rest'

export class SecretBook {
  readonly #secrets: Record<Way, string[]> = { kubectl: [], rest: [] }
  readonly #shapes = new Map<string, string>()
  readonly #random: SeededRandom

  constructor(random: SeededRandom) {
    this.#random = random
  }

  /** Of every shape in turn. */
  stored(way: Way, count: number): string[] {
    const secrets = hurtingSecrets(this.#random, count)
    for (const [index, secret] of secrets.entries()) this.#shapes.set(secret, hurtingShape(index))
    return this.#noted(way, secrets)
  }

  /** Name of the shape of a secret to be stored, which may be printed, unlike the secret. */
  shapeOf(secret: string): string {
    return this.#shapes.get(secret) ?? ''
  }

  /** Secrets that Davit rejects. */
  refused(way: Way, count: number): string[] {
    return this.#noted(way, refusedSecrets(this.#random, count))
  }

  all(way: Way): readonly string[] {
    return this.#secrets[way]
  }

  #noted(way: Way, secrets: string[]): string[] {
    this.#secrets[way].push(...secrets)
    return secrets
  }
}
