import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { CredentialMetrics } from '../../lib/metrics.ts'
import { unlessAborted } from '../../lib/sleep.ts'
import { credentialOf, isOwnedBy, organizationPath, probeName } from '../aws/names.ts'
import {
  type CallLimits,
  type CloudAccess,
  type CloudError,
  isCloudError,
  type ListedParameter,
  type ParameterListing,
  type ParameterStore,
} from '../cloud.ts'
import type { AccountAccess } from './identity.ts'

/**
 * What the accounts of organizations hold, as last listed: one listing tells of all credentials of an organization. Asked for
 * more than once at a time, it is read once.
 */

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

/**
 * Strays: parameters with our tags that no resource speaks of, since a process ended between the account and the cluster. Only
 * what carries the tags of this installation and organization is removed.
 */

export type GarbageOptions = {
  cloud: ParameterStore & ParameterListing
  accounts: AccountAccess
  prefix: string
  metrics: Pick<CredentialMetrics, 'parameterRemoved'>
  log: Logger
  /** While it runs nothing else is done to that credential by this process. */
  exclusively: <T>(organization: string, credential: string, act: () => Promise<T>) => Promise<T>
}

/** What is a stray, and what becomes of it. */
export type Sweep = {
  /** Whether a resource speaks of it now, read live. */
  isReferenced: (parameter: string, credential: string) => Promise<boolean>
  /** Younger ones may be about to get their resource: milliseconds. */
  minAgeMs: number
  /** Where to begin, so that what comes after many that stay has its turn: 0 to 1. */
  begin: number
  /** Looked at; more wait for the next time. */
  most: number
  /** One that could not be removed. When it throws, the sweep ends. */
  failed: (parameter: ListedParameter, error: CloudError) => Promise<void>
  limits: CallLimits
}

/** @returns how many were removed @throws ApiError, and what `failed` throws */
export async function collectGarbage(
  options: GarbageOptions,
  access: CloudAccess,
  { listing, sweep }: { listing: Listing; sweep: Sweep },
): Promise<number> {
  const of = { prefix: options.prefix, organization: access.organization }
  let looked = 0
  let removed = 0
  for (const parameter of inTurn(listing, sweep.begin)) {
    if (listing.at - parameter.modifiedAt < sweep.minAgeMs) continue
    const credential = credentialOf(parameter.name, of)
    if (credential === undefined && parameter.name !== probeName(of)) continue
    if (credential !== undefined && (await sweep.isReferenced(parameter.name, credential))) continue
    looked += 1
    if (looked > sweep.most) break
    if (await collectParameter(options, access, { parameter, credential, sweep })) removed += 1
  }
  return removed
}

function inTurn({ parameters }: Listing, begin: number): ListedParameter[] {
  const all = [...parameters.values()]
  const first = Math.floor(begin * all.length)
  return [...all.slice(first), ...all.slice(0, first)]
}

async function collectParameter(
  options: GarbageOptions,
  access: CloudAccess,
  {
    parameter,
    credential,
    sweep,
  }: { parameter: ListedParameter; credential: string | undefined; sweep: Sweep },
): Promise<boolean> {
  const { organization } = access
  const { name } = parameter
  try {
    if (credential === undefined) return await deleteIfOwned(options, access, { name, limits: sweep.limits })
    return await options.exclusively(organization, credential, async () => {
      // It may have come while we waited.
      if (await sweep.isReferenced(name, credential)) return false
      return await deleteIfOwned(options, access, { name, limits: sweep.limits })
    })
  } catch (error) {
    if (!isCloudError(error)) throw error
    if (error.remedy !== 'gone') await sweep.failed(parameter, error)
    return false
  }
}

/** @throws CloudError, of the remedy `gone` too */
async function deleteIfOwned(
  { cloud, accounts, metrics, log }: GarbageOptions,
  access: CloudAccess,
  { name, limits }: { name: string; limits: CallLimits },
): Promise<boolean> {
  const { organization, organizationUid } = access
  const tags = await cloud.tagsOf(access, name, limits)
  if (!isOwnedBy(tags, { installation: accounts.installation, organizationUid })) return false
  const result = await cloud.remove(access, name, limits)
  metrics.parameterRemoved(result)
  if (result === 'deleted') log.info('Removed a parameter that no resource speaks of', { organization, name })
  return result === 'deleted'
}
