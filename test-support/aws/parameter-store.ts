import type { Account } from './account.ts'
import type { KeyStore } from './key-store.ts'

export type ParameterType = 'SecureString' | 'String' | 'StringList'
export type Tier = 'Advanced' | 'Standard'

export type ParameterVersion = {
  readonly version: number
  readonly type: ParameterType
  readonly value: string
  /** What readers without decryption get of a SecureString. */
  readonly ciphertext: string | undefined
  readonly keyId: string | undefined
  readonly description: string | undefined
  readonly tier: Tier
  readonly labels: readonly string[]
  /** Milliseconds since 1970. */
  readonly modifiedAt: number
  /** ARN of who wrote it. */
  readonly modifiedBy: string
}

/** Never changed, only put in place of another, so that an older state can be kept. */
export type Parameter = {
  readonly name: string
  /** The oldest first, never none. */
  readonly versions: readonly ParameterVersion[]
  readonly tags: ReadonlyMap<string, string>
}

type Change = { name: string; at: number; before: Parameter | undefined }

export const MAX_PARAMETERS: Readonly<Record<Tier, number>> = { Standard: 10_000, Advanced: 100_000 }
const MAX_CHANGES = 20_000

/** The parameters of an account in a region. It knows no rules. */
export class ParameterStore {
  readonly account: Account
  readonly region: string
  readonly keys: KeyStore
  /** What a new parameter is whose tier is not said: a setting of the account. */
  defaultTier: Tier | 'Intelligent-Tiering' = 'Standard'
  readonly #parameters = new Map<string, Parameter>()
  /** The latest last. */
  readonly #changes: Change[] = []

  constructor(account: Account, region: string, keys: KeyStore) {
    this.account = account
    this.region = region
    this.keys = keys
  }

  /** @param before the state at that time; absent: now */
  get(name: string, before?: number): Parameter | undefined {
    if (before === undefined) return this.#parameters.get(name)
    return this.#asOf(before, (change) => change.name === name).get(name)
  }

  /** By name. @param before the state at that time; absent: now */
  list(before?: number): Parameter[] {
    const found = before === undefined ? this.#parameters : this.#asOf(before, () => true)
    return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  put(parameter: Parameter, now: number): void {
    this.#remember(parameter.name, now)
    this.#parameters.set(parameter.name, parameter)
  }

  delete(name: string, now: number): void {
    this.#remember(name, now)
    this.#parameters.delete(name)
  }

  count(tier: Tier): number {
    let count = 0
    for (const { versions } of this.#parameters.values()) if (versions.at(-1)?.tier === tier) count += 1
    return count
  }

  /** For tests: what is stored, which no role can be asked for that may not read. */
  value(name: string): string | undefined {
    return this.#parameters.get(name)?.versions.at(-1)?.value
  }

  arn(name: string): string {
    const { id, partition } = this.account
    return `arn:${partition.name}:ssm:${this.region}:${id}:parameter/${name.replace(/^\//, '')}`
  }

  /** Takes back what was changed since, the latest first. */
  #asOf(time: number, isMeant: (change: Change) => boolean): Map<string, Parameter> {
    const parameters = new Map(this.#parameters)
    for (const change of this.#changes.toReversed()) {
      if (change.at <= time) break
      if (!isMeant(change)) continue
      if (change.before) parameters.set(change.name, change.before)
      else parameters.delete(change.name)
    }
    return parameters
  }

  #remember(name: string, at: number): void {
    this.#changes.push({ name, at, before: this.#parameters.get(name) })
    if (this.#changes.length > MAX_CHANGES) this.#changes.splice(0, MAX_CHANGES / 2)
  }
}
