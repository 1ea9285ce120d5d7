import type { CallLimits, CloudAccess, ListedParameter, OwnerTags, ParameterListing } from '../cloud.ts'
import { CloudError } from '../cloud-error.ts'
import type { RecentWrite } from './recent-writes.ts'
import { accountRegionKey, type RateLimiterFor, type SsmCalls } from './ssm-calls.ts'

/** The most that a page may have. */
const PAGE_SIZE = 50
/** A page may have less than that, and even nothing, with more to come. */
const SPARE_PAGES = 20
const FEWEST_OF_PAGE = 10
/** Listings until one has what was written a moment ago; the last one counts as it is. */
const MOST_LISTINGS = 3

export type ParameterListingOptions = { calls: SsmCalls; listTurns: RateLimiterFor }

type Filter = { prefix: string; tags?: OwnerTags; limit: number }

/** What is in Parameter Store, without values. */
export function createParameterListing(options: ParameterListingOptions): ParameterListing {
  return {
    list: (access, filter, limits = {}) => list(options, access, { filter, limits }),
    tagsOf: (access, name, limits = {}) => tagsOf(options, access, { name, limits }),
  }
}

async function list(
  options: ParameterListingOptions,
  access: CloudAccess,
  asked: { filter: Filter; limits: CallLimits },
): Promise<ListedParameter[]> {
  const place = accountRegionKey(access)
  for (let listing = 1; ; listing += 1) {
    const writes = options.calls.recent.under(place, `${asked.filter.prefix}/`)
    const listed = await allPages(options, access, asked)
    if (listing >= MOST_LISTINGS || !writes.some((write) => contradicts(listed, write))) {
      return [...listed.values()]
    }
  }
}

/** Whether a listing shows a time before a write. */
function contradicts(listed: ReadonlyMap<string, ListedParameter>, write: RecentWrite): boolean {
  const found = listed.get(write.name)
  if (write.done === 'removed') return found !== undefined
  return found === undefined || found.version < write.version
}

async function allPages(
  options: ParameterListingOptions,
  access: CloudAccess,
  asked: { filter: Filter; limits: CallLimits },
): Promise<Map<string, ListedParameter>> {
  const { limit, prefix } = asked.filter
  const found = new Map<string, ListedParameter>()
  let token: string | undefined
  for (let pages = 0; pages < SPARE_PAGES + Math.ceil(limit / FEWEST_OF_PAGE); pages += 1) {
    const page = await onePage(options, access, { ...asked, token })
    for (const one of page.parameters) if (one.name.startsWith(`${prefix}/`)) found.set(one.name, one)
    if (found.size > limit) throw tooMany(`There are more than ${limit} parameters under ${prefix}.`)
    token = page.next
    if (token === undefined) return found
  }
  throw tooMany(`The parameters under ${prefix} come in too many pages.`)
}

function tooMany(message: string): CloudError {
  return new CloudError('spec', 'TooManyParameters', message, { operation: 'ssm:DescribeParameters' })
}

async function onePage(
  { calls, listTurns }: ParameterListingOptions,
  access: CloudAccess,
  { filter, limits, token }: { filter: Filter; limits: CallLimits; token: string | undefined },
): Promise<{ parameters: ListedParameter[]; next: string | undefined }> {
  const ofTags = Object.entries(filter.tags ?? {}).map(([key, value]) => ({
    Key: `tag:${key}`,
    Values: [value],
  }))
  return await calls.run(access, {
    operation: 'ssm:DescribeParameters',
    limits,
    turns: listTurns,
    send: async ({ module, client }, signal) => {
      const command = new module.DescribeParametersCommand({
        ParameterFilters: [{ Key: 'Path', Option: 'Recursive', Values: [filter.prefix] }, ...ofTags],
        MaxResults: PAGE_SIZE,
        ...(token !== undefined && { NextToken: token }),
      })
      const { Parameters = [], NextToken } = await client.send(command, { abortSignal: signal })
      const parameters = Parameters.map((one) => ({
        name: one.Name ?? '',
        version: one.Version ?? 0,
        type: one.Type ?? '',
        ...(one.KeyId !== undefined && { kmsKeyId: one.KeyId }),
        modifiedAt: one.LastModifiedDate?.getTime() ?? 0,
        modifiedBy: one.LastModifiedUser ?? '',
      }))
      return { parameters, next: NextToken || undefined }
    },
  })
}

async function tagsOf(
  { calls }: ParameterListingOptions,
  access: CloudAccess,
  { name, limits }: { name: string; limits: CallLimits },
): Promise<OwnerTags> {
  const place = accountRegionKey(access)
  const wasWritten = () => calls.recent.lastOf(place, name)?.done === 'written'
  return await calls.run(access, {
    operation: 'ssm:ListTagsForResource',
    limits,
    isStale: (code) => GONE.has(code) && wasWritten(),
    send: async ({ module, client }, signal) => {
      const command = new module.ListTagsForResourceCommand({ ResourceType: 'Parameter', ResourceId: name })
      const { TagList = [] } = await client.send(command, { abortSignal: signal })
      return Object.fromEntries(TagList.map(({ Key = '', Value = '' }) => [Key, Value]))
    },
  })
}

const GONE: ReadonlySet<string> = new Set(['InvalidResourceId', 'ParameterNotFound'])
