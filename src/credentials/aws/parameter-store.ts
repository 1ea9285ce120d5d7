import type { Clock, Random } from '../../lib/clock.ts'
import type { RateLimiter } from '../../lib/rate-limit.ts'
import type { SecretText } from '../../lib/redact.ts'
import {
  type CallLimits,
  type CloudAccess,
  CloudError,
  type CloudRemedy,
  isCloudError,
  type ListedParameter,
  type NewParameter,
  type OwnerTags,
  type ParameterListing,
  type ParameterStore,
} from '../cloud.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import type { AwsClients, Ssm } from './clients.ts'
import type { AssumedRole, SessionPurpose, Sessions } from './sessions.ts'

/** Account of an ARN as `arn:aws:iam::111122223333:role/davit`. Throws CloudError of the remedy `spec`. */
export function accountOfArn(arn: string): string {
  const account = /^arn:[a-z0-9-]+:(?:iam|sts)::(\d{12}):/.exec(arn)?.[1]
  if (account === undefined)
    throw new CloudError('spec', 'ValidationError', 'The ARN of the role names no account.')
  return account
}

/** For so long an answer may be of a time before a write; seen are a few seconds. */
const LAG_MS = 5000
/** AWS says to wait so long before a name is used again that was deleted. */
const NAME_FREE_MS = 30_000
const MOST = 5000

type RecentWrite = { name: string; done: 'written'; version: number } | { name: string; done: 'removed' }

type Noted = { place: string; write: RecentWrite; at: number }

/**
 * What this process wrote a short while ago: Parameter Store promises nobody that a read shows the last write, so that an answer
 * which contradicts it is asked for again.
 */
export class ReadLagGuard {
  readonly #clock: Clock
  /** By account, region and name; oldest first. */
  readonly #writes = new Map<string, Noted>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param place account and region */
  note(place: string, write: RecentWrite): void {
    this.#forgetOld()
    const key = `${place} ${write.name}`
    this.#writes.delete(key)
    this.#writes.set(key, { place, write, at: this.#clock.monotonic() })
  }

  lastOf(place: string, name: string): RecentWrite | undefined {
    const last = this.#writes.get(`${place} ${name}`)
    return last && this.#isRecent(last) ? last.write : undefined
  }

  under(place: string, prefix: string): RecentWrite[] {
    return [...this.#writes.values()]
      .filter((one) => one.place === place && one.write.name.startsWith(prefix) && this.#isRecent(one))
      .map(({ write }) => write)
  }

  #isRecent({ write, at }: Noted): boolean {
    return this.#clock.monotonic() - at < (write.done === 'removed' ? NAME_FREE_MS : LAG_MS)
  }

  #forgetOld(): void {
    for (const [key, noted] of this.#writes) {
      const isOld = this.#clock.monotonic() - noted.at >= NAME_FREE_MS
      if (!isOld && this.#writes.size < MOST) return
      this.#writes.delete(key)
    }
  }
}

/** Turns of one account and region, by a name for these two. */
export type RateLimiterFor = (place: string) => RateLimiter

export type SsmCall<T> = {
  operation: string
  purpose?: SessionPurpose
  limits: CallLimits | undefined
  turns?: RateLimiterFor
  /** Those of one organization that take their turns together; absent: all its other calls. */
  queue?: string
  secrets?: readonly string[]
  isStale?: (code: string) => boolean
  /** @param lost earlier attempts of this call that may have had their effect */
  send(ssm: Ssm, signal: AbortSignal, lost: number): Promise<T>
}

/** Calls of Parameter Store in the session of an organization. */
export class SsmCalls {
  readonly #world: AwsDependencies
  readonly #clients: AwsClients
  readonly #sessions: Sessions
  readonly recent: ReadLagGuard

  constructor(options: { world: AwsDependencies; clients: AwsClients; sessions: Sessions }) {
    this.#world = options.world
    this.#clients = options.clients
    this.#sessions = options.sessions
    this.recent = new ReadLagGuard(options.world.clock)
  }

  async run<T>(access: CloudAccess, call: SsmCall<T>): Promise<T> {
    const { purpose = 'write' } = call
    const place = accountRegionKey(access)
    let role: AssumedRole | undefined
    return await runCall(this.#world, {
      operation: call.operation,
      limits: call.limits ?? {},
      ...(call.turns && { turns: { of: call.turns(place), flow: flowOf(access, call.queue) } }),
      connect: async (signal) => {
        role = await this.#sessions.of(access, purpose, signal)
        return await this.#clients.ssm(access.region, role.credentials)
      },
      send: async (ssm, signal, lost) =>
        await this.#clients.timed(ssm.client, () => call.send(ssm, signal, lost)),
      secrets: () => [...(call.secrets ?? []), ...(role ? [role.credentials.sessionToken] : [])],
      forgetSession: () => {
        if (role) this.#sessions.forget(access, purpose, role)
      },
      ...(call.isStale && { isStale: call.isStale }),
    })
  }
}

function flowOf({ organizationUid }: CloudAccess, queue: string | undefined): string {
  return queue === undefined ? organizationUid : `${organizationUid} ${queue}`
}

/** What rates and writes belong to. Throws CloudError where the role is no ARN. */
function accountRegionKey(access: CloudAccess): string {
  return `${accountOfArn(access.roleArn)}/${access.region}`
}

/**
 * Tag of each call that makes a parameter, with a value of its own: when the answer was lost, it tells whether the parameter that is
 * there is from this call.
 */
const WRITE_TAG = 'davit.dev/write'
const WRITE_TAG_BYTES = 12

export type ParameterStoreOptions = {
  calls: SsmCalls
  tagsOf: ParameterListing['tagsOf']
  writeTurns: RateLimiterFor
  random: Random
}

/** SecureStrings of Parameter Store, written and never read. */
export function createParameterStore(options: ParameterStoreOptions): ParameterStore {
  return {
    create: (access, parameter, limits) => create(options, access, { parameter, limits }),
    replace: (access, name, value, limits) => replace(options, access, { name, value, limits }),
    remove: (access, name, limits) => remove(options, access, { name, limits }),
  }
}

type Limited = { limits: CallLimits | undefined }
type Put = { name: string; value: SecretText } & Limited &
  (
    | { overwrite: true }
    | { overwrite: false; description: string; tags: OwnerTags; isStale(code: string): boolean }
  )

async function create(
  options: ParameterStoreOptions,
  access: CloudAccess,
  { parameter, limits }: { parameter: NewParameter } & Limited,
): Promise<{ version: number }> {
  const { recent } = options.calls
  const place = accountRegionKey(access)
  const { name } = parameter
  const mark = Buffer.from(options.random.bytes(WRITE_TAG_BYTES)).toString('hex')
  const tags = { ...parameter.tags, [WRITE_TAG]: mark }
  // One that was removed a moment ago may still seem to be there.
  const isStale = (code: string) =>
    code === 'ParameterAlreadyExists' && recent.lastOf(place, name)?.done === 'removed'
  try {
    const { version } = await put(options, access, { ...parameter, tags, overwrite: false, isStale, limits })
    recent.note(place, { name, done: 'written', version })
    return { version }
  } catch (error) {
    if (!isCloudError(error, 'ParameterAlreadyExists')) throw error
    if (!error.unsure) throw isStale(error.code) ? amended(error, { remedy: 'retry' }) : error
    // The first version of what was not there before; whoever wrote a second one since is found by its number.
    recent.note(place, { name, done: 'written', version: 1 })
    const written = await markOf(options, access, { name, limits })
    if (written === mark) return { version: 1 }
    throw written === undefined ? error : amended(error, { unsure: false })
  }
}

/** Of the call that made it, empty if it has none; undefined if it is not there. */
async function markOf(
  { tagsOf }: ParameterStoreOptions,
  access: CloudAccess,
  { name, limits }: { name: string } & Limited,
): Promise<string | undefined> {
  try {
    return (await tagsOf(access, name, limits))[WRITE_TAG] ?? ''
  } catch (error) {
    if (isCloudError(error) && error.remedy === 'gone') return undefined
    throw isCloudError(error) ? amended(error, { unsure: true }) : error
  }
}

function amended(error: CloudError, change: { remedy?: CloudRemedy; unsure?: boolean }): CloudError {
  const { remedy, code, message, operation, unsure } = { ...error, message: error.message, ...change }
  return new CloudError(remedy, code, message, { operation, unsure })
}

async function replace(
  options: ParameterStoreOptions,
  access: CloudAccess,
  { name, value, limits }: { name: string; value: SecretText } & Limited,
): Promise<{ version: number }> {
  const { version, lost } = await put(options, access, { name, value, overwrite: true, limits })
  options.calls.recent.note(accountRegionKey(access), { name, done: 'written', version })
  // Versions count from 1: one so low may be that of a parameter which was gone, and which this call has made anew.
  if (version <= lost + 1 && (version === 1 || (await isUntagged(options, access, { name, limits })))) {
    await takeBack(options, access, name)
    throw new CloudError('gone', 'ParameterNotFound', 'There was no parameter to write over.', {
      operation: 'ssm:PutParameter',
    })
  }
  return { version }
}

/** Also when the caller has left: nobody would find a parameter without tags. */
async function takeBack(options: ParameterStoreOptions, access: CloudAccess, name: string): Promise<void> {
  try {
    await remove(options, access, { name, limits: undefined })
  } catch (error) {
    throw isCloudError(error) ? amended(error, { unsure: true }) : error
  }
}

/** What Davit made has tags from its first moment; what does not show yet was made just now. */
async function isUntagged(
  { tagsOf }: ParameterStoreOptions,
  access: CloudAccess,
  { name, limits }: { name: string } & Limited,
): Promise<boolean> {
  try {
    return Object.keys(await tagsOf(access, name, limits)).length === 0
  } catch (error) {
    if (isCloudError(error) && error.remedy === 'gone') return true
    throw isCloudError(error) ? amended(error, { unsure: true }) : error
  }
}

async function put(
  { calls, writeTurns }: ParameterStoreOptions,
  access: CloudAccess,
  given: Put,
): Promise<{ version: number; lost: number }> {
  return await calls.run(access, {
    operation: 'ssm:PutParameter',
    limits: given.limits,
    turns: writeTurns,
    secrets: [given.value.reveal()],
    ...(given.overwrite ? {} : { isStale: given.isStale }),
    send: async ({ module, client }, signal, lost) => {
      const command = new module.PutParameterCommand({
        Name: given.name,
        Value: given.value.reveal(),
        Type: 'SecureString',
        // Named, since the account's own default may be one that costs money. A data type is refused in some partitions.
        Tier: 'Standard',
        Overwrite: given.overwrite,
        ...(access.kmsKeyId !== undefined && { KeyId: access.kmsKeyId }),
        ...(given.overwrite ? {} : { Description: given.description, Tags: listOf(given.tags) }),
      })
      const { Version } = await client.send(command, { abortSignal: signal })
      if (Version === undefined)
        throw new CloudError('retry', 'UnreadableAnswer', 'The answer has no version.', {
          operation: 'ssm:PutParameter',
          unsure: true,
        })
      return { version: Version, lost }
    },
  })
}

async function remove(
  { calls, writeTurns }: ParameterStoreOptions,
  access: CloudAccess,
  { name, limits }: { name: string } & Limited,
): Promise<'deleted' | 'not-found'> {
  const place = accountRegionKey(access)
  const { recent } = calls
  try {
    await calls.run(access, {
      operation: 'ssm:DeleteParameter',
      limits,
      turns: writeTurns,
      // What is deleted holds up its namespace: it does not wait behind all that the organization has to store.
      queue: 'removals',
      // One that was made a moment ago may not be seen yet.
      isStale: (code) => code === 'ParameterNotFound' && recent.lastOf(place, name)?.done === 'written',
      send: ({ module, client }, signal) =>
        client.send(new module.DeleteParameterCommand({ Name: name }), { abortSignal: signal }),
    })
  } catch (error) {
    if (!isCloudError(error, 'ParameterNotFound')) throw error
    // By an attempt of this very call whose answer was lost.
    if (!error.unsure) return 'not-found'
  }
  recent.note(place, { name, done: 'removed' })
  return 'deleted'
}

function listOf(tags: OwnerTags): { Key: string; Value: string }[] {
  return Object.entries(tags).map(([Key, Value]) => ({ Key, Value }))
}

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
