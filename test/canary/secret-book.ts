/** Every secret of a run, and the way that it takes into an account. */
import type { SeededRandom } from '../chaos/seeded-random.ts'
import { hurtingSecrets, refusedSecrets } from './hurting-secrets.ts'

/** `kubectl`: by a Secret of its owner, which is in the cluster until it is stored; `rest`: never in the cluster. */
export type Way = 'kubectl' | 'rest'

export class SecretBook {
  readonly #secrets: Record<Way, string[]> = { kubectl: [], rest: [] }
  readonly #random: SeededRandom

  constructor(random: SeededRandom) {
    this.#random = random
  }

  /** Of every shape in turn. */
  stored(way: Way, count: number): string[] {
    return this.#noted(way, hurtingSecrets(this.#random, count))
  }

  /** Such as Davit does not take. */
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
