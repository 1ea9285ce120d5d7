import { AccessKeys } from './access-keys.ts'
import { Account, KeyStore, ParameterStore } from './account.ts'
import { partitionNamed } from './partitions.ts'

const MAX_ACCOUNTS = 10_000

/** All accounts of the emulator. */
export class Accounts {
  readonly keys = new AccessKeys()
  readonly #accounts = new Map<string, Account>()

  /** @param id twelve digits */
  add(id: string, options: { partition?: string } = {}): Account {
    if (this.#accounts.has(id)) throw new RangeError(`there is an account ${id} already`)
    if (this.#accounts.size >= MAX_ACCOUNTS) throw new RangeError(`more than ${MAX_ACCOUNTS} accounts`)
    const account = new Account(id, partitionNamed(options.partition ?? 'aws'), {
      newKey: (owner, user) => this.keys.addUserKey(owner, user),
      newRegion: (owner, region) => {
        const keys = new KeyStore(owner, region)
        return { keys, parameters: new ParameterStore(owner, region, keys) }
      },
    })
    this.#accounts.set(id, account)
    return account
  }

  get(id: string): Account | undefined {
    return this.#accounts.get(id)
  }

  all(): Account[] {
    return [...this.#accounts.values()]
  }
}
