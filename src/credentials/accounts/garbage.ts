/**
 * What the accounts of organizations hold, as last listed, and the removal of garbage from them: parameters with our tags that no resource
 * refers to, since a process ended between its writes to the account and to the cluster.
 */

import type { Logger } from '../../lib/log.ts'
import type { CredentialMetrics } from '../../lib/metrics.ts'
import { type Clock, unlessAborted } from '../../lib/time.ts'
import { credentialOf, organizationPath, probeName } from '../aws/names.ts'
import { isOwnedBy } from '../aws/parameter-tags.ts'
import {
  type CallLimits,
  type CloudAccess,
  type CloudError,
  isCloudError,
  type ListedParameter,
  type ParameterListing,
  type ParameterStore,
} from '../cloud.ts'
import type { AccountIdentity } from './identity.ts'

/** How old a parameter without a resource has to be. A REST request takes less from the one to the other. */
export const GARBAGE_AGE_MS = 600_000
/** Parameters removed per sweep. */
export const MAX_GARBAGE = 200

export type Listing = {
  /** When it was requested, milliseconds since 1970. */
  at: number
  region: string
  roleArn: string
  parameters: ReadonlyMap<string, ListedParameter>
}

type AccountListingsOptions = {
  cloud: ParameterListing
  clock: Clock
  prefix: string
  listEveryMs: number
}

/** Missed listings in a row after which the last one is stale. */
const STALE_AFTER = 2
/** As many as an account takes. */
const LIMIT = 10_000
const DEADLINE_MS = 120_000

/** The last listing of each organization's account. Concurrent requests for one account share a call. */
export class AccountListings {
  readonly #options: AccountListingsOptions
  readonly #listings = new Map<string, Listing>()
  readonly #running = new Map<string, Promise<Listing>>()
  readonly #listeners: ((organization: string) => void)[] = []

  constructor(options: AccountListingsOptions) {
    this.#options = options
  }

  /** Called after each listing, and after one that failed while the last one is stale. */
  listen(listener: (organization: string) => void): void {
    this.#listeners.push(listener)
  }

  /** Undefined unless it was of this account and region. */
  lastListing({ organization, region, roleArn }: Pick<CloudAccess, 'organization' | 'region' | 'roleArn'>) {
    const listing = this.#listings.get(organization)
    return listing?.region === region && listing.roleArn === roleArn ? listing : undefined
  }

  isStale({ at }: Listing): boolean {
    const { clock, listEveryMs } = this.#options
    return clock.now() - at > STALE_AFTER * listEveryMs
  }

  /** @param signal ends waiting for it, with its reason @throws CloudError */
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
      if (last && this.isStale(last)) this.#notify(organization)
      throw error
    })
    const parameters = new Map(found.map((parameter) => [parameter.name, parameter]))
    const listing = { at, region, roleArn, parameters }
    this.#listings.set(organization, listing)
    this.#notify(organization)
    return listing
  }

  #notify(organization: string): void {
    for (const listener of this.#listeners) listener(organization)
  }
}

export type GarbageOptions = {
  cloud: ParameterStore & ParameterListing
  accounts: AccountIdentity
  prefix: string
  metrics: Pick<CredentialMetrics, 'parameterRemoved'>
  log: Logger
  /** While `act` runs, this process does nothing else to that credential. */
  exclusively: <T>(organization: string, credential: string, act: () => Promise<T>) => Promise<T>
}

/** Which parameters are garbage, and what to do about failures. */
export type Sweep = {
  /** Whether a resource refers to it, read live. */
  isReferenced: (parameter: string, credential: string) => Promise<boolean>
  /** Younger ones may be about to get their resource: milliseconds. */
  minAgeMs: number
  /** Fraction of the listing to start at, so that parameters behind many that stay get their turn: 0 to 1. */
  startAt: number
  /** Parameters to check; the others wait for the next sweep. */
  max: number
  /** For one that could not be removed. If it throws, the sweep ends. */
  failed: (parameter: ListedParameter, error: CloudError) => Promise<void>
  limits: CallLimits
}

/** @returns how many were removed @throws ApiError, and what `failed` throws */
export async function collectGarbage(
  options: GarbageOptions,
  access: CloudAccess,
  listing: Listing,
  sweep: Sweep,
): Promise<number> {
  const of = { prefix: options.prefix, organization: access.organization }
  const all = [...listing.parameters.values()]
  const first = Math.floor(sweep.startAt * all.length)
  let checked = 0
  let removed = 0
  for (const parameter of [...all.slice(first), ...all.slice(0, first)]) {
    if (listing.at - parameter.modifiedAt < sweep.minAgeMs) continue
    const credential = credentialOf(parameter.name, of)
    if (credential === undefined && parameter.name !== probeName(of)) continue
    if (credential !== undefined && (await sweep.isReferenced(parameter.name, credential))) continue
    checked += 1
    if (checked > sweep.max) break
    if (await collectParameter(options, access, parameter, credential, sweep)) removed += 1
  }
  return removed
}

async function collectParameter(
  options: GarbageOptions,
  access: CloudAccess,
  parameter: ListedParameter,
  credential: string | undefined,
  sweep: Sweep,
): Promise<boolean> {
  const { name } = parameter
  try {
    if (credential === undefined) return await deleteIfOwned(options, access, name, sweep.limits)
    return await options.exclusively(access.organization, credential, async () => {
      // Its resource may have appeared while we waited.
      if (await sweep.isReferenced(name, credential)) return false
      return await deleteIfOwned(options, access, name, sweep.limits)
    })
  } catch (error) {
    if (!isCloudError(error)) throw error
    if (error.remedy !== 'gone') await sweep.failed(parameter, error)
    return false
  }
}

/** @throws CloudError, also with the remedy `gone` */
async function deleteIfOwned(
  { cloud, accounts, metrics, log }: GarbageOptions,
  access: CloudAccess,
  name: string,
  limits: CallLimits,
): Promise<boolean> {
  const { organization, organizationUid } = access
  const tags = await cloud.tagsOf(access, name, limits)
  if (!isOwnedBy(tags, accounts.ownerOf(organizationUid))) return false
  const result = await cloud.remove(access, name, limits)
  metrics.parameterRemoved(result)
  if (result === 'deleted')
    log.info('unreferenced_parameter_deleted', 'deleted unreferenced parameter', { organization, name })
  return result === 'deleted'
}
