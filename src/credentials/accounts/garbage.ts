/**
 * Strays: parameters with our tags that no resource speaks of, since a process ended between the account and the cluster. Only
 * what carries the tags of this installation and organization is removed.
 */

import type { CredentialMetrics } from '../../lib/metrics.ts'
import type { Logger } from '../../lib/ports-log.ts'
import { isOwnedBy } from '../aws/owner-tags.ts'
import { credentialOf, probeName } from '../aws/parameter-name.ts'
import type { CallLimits, CloudAccess, ListedParameter, ParameterListing, ParameterStore } from '../cloud.ts'
import { type CloudError, isCloudError } from '../cloud-error.ts'
import type { Listing } from './account-listings.ts'
import type { AccountAccess } from './identity.ts'

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
