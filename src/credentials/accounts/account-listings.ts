/**
 * What the accounts of organizations hold, as last listed: one listing tells of all credentials of an organization. Asked for
 * more than once at a time, it is read once.
 */

import type { Clock } from '../../lib/ports-clock.ts'
import { unlessAborted } from '../../lib/unless-aborted.ts'
import { organizationPath } from '../aws/parameter-name.ts'
import type { CloudAccess, ListedParameter, ParameterListing } from '../cloud.ts'

export type Listing = {
  /** When it was asked for, milliseconds since 1970. */
  at: number
  /** Where. */
  region: string
  roleArn: string
  parameters: ReadonlyMap<string, ListedParameter>
}

export type AccountListingsOptions = {
  cloud: ParameterListing
  clock: Clock
  prefix: string
  /** Between two listings of an account. */
  listEveryMs: number
}

/** After so many times that, what was listed is not what is. */
const STALE_AFTER = 2
/** As many as an account takes. */
const LIMIT = 10_000
const DEADLINE_MS = 120_000

export class AccountListings {
  readonly #options: AccountListingsOptions
  readonly #listings = new Map<string, Listing>()
  readonly #running = new Map<string, Promise<Listing>>()
  readonly #listeners: ((organization: string) => void)[] = []

  constructor(options: AccountListingsOptions) {
    this.#options = options
  }

  /** Told when a listing has come, and when one has failed and the last is stale. */
  listen(listener: (organization: string) => void): void {
    this.#listeners.push(listener)
  }

  /** The last, if it was of this account and region. */
  lastListing({ organization, region, roleArn }: Pick<CloudAccess, 'organization' | 'region' | 'roleArn'>) {
    const listing = this.#listings.get(organization)
    return listing?.region === region && listing.roleArn === roleArn ? listing : undefined
  }

  isStale({ at }: Listing): boolean {
    const { clock, listEveryMs } = this.#options
    return clock.now() - at > STALE_AFTER * listEveryMs
  }

  /** @param signal ends the waiting for it, with its reason @throws CloudError */
  async list(access: CloudAccess, signal?: AbortSignal): Promise<Listing> {
    const key = `${access.organization} ${access.region} ${access.roleArn}`
    const running = this.#running.get(key) ?? this.#read(access).finally(() => this.#running.delete(key))
    this.#running.set(key, running)
    return await (signal ? unlessAborted(signal, running) : running)
  }

  forget(organization: string): void {
    this.#listings.delete(organization)
  }

  async #read(access: CloudAccess): Promise<Listing> {
    const { cloud, clock } = this.#options
    const { organization, region, roleArn } = access
    const at = clock.now()
    const prefix = organizationPath({ prefix: this.#options.prefix, organization })
    const limits = { deadlineMs: DEADLINE_MS, turnMs: DEADLINE_MS }
    const found = await cloud.list(access, { prefix, limit: LIMIT }, limits).catch((error: unknown) => {
      const last = this.lastListing(access)
      if (last && this.isStale(last)) this.#tell(organization)
      throw error
    })
    const parameters = new Map(found.map((parameter) => [parameter.name, parameter]))
    const listing = { at, region, roleArn, parameters }
    this.#listings.set(organization, listing)
    this.#tell(organization)
    return listing
  }

  #tell(organization: string): void {
    for (const listener of this.#listeners) listener(organization)
  }
}
