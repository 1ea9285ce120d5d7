/** AWS Systems Manager Parameter Store: SecureStrings that are written, listed and removed, never read; despite reads that lag behind writes. */

import type { RateLimiter } from '../../lib/rate-limit.ts'
import type { SecretText } from '../../lib/redact.ts'
import type { Clock } from '../../lib/time.ts'
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
import type { SessionPurpose } from './policies.ts'
import type { AssumedRole, Sessions } from './sessions.ts'

/** Account in an ARN such as `arn:aws:iam::111122223333:role/davit`. @throws CloudError with the remedy `spec` */
export function accountOfArn(arn: string): string {
  const account = /^arn:[a-z0-9-]+:(?:iam|sts)::(\d{12}):/.exec(arn)?.[1]
  if (account === undefined)
    throw new CloudError('spec', 'ValidationError', 'The role ARN does not contain an account.')
  return account
}

/** How long a read may show the state before a write; in practice a few seconds. */
const LAG_MS = 5000
/** AWS asks to wait this long before a deleted name is used again. */
const NAME_FREE_MS = 30_000
const MAX_WRITES = 5000

type RecentWrite = { name: string; done: 'written'; version: number } | { name: string; done: 'removed' }

type Noted = { location: string; write: RecentWrite; at: number }

/** Recent writes of this process. Parameter Store does not guarantee that a read shows the last write; a read that contradicts one is retried. */
export class ReadLagGuard {
  readonly #clock: Clock
  /** By account, region and name; oldest first. */
  readonly #writes = new Map<string, Noted>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param location account and region */
  note(location: string, write: RecentWrite): void {
    this.#forgetOld()
    const key = `${location} ${write.name}`
    this.#writes.delete(key)
    this.#writes.set(key, { location, write, at: this.#clock.monotonic() })
  }

  lastOf(location: string, name: string): RecentWrite | undefined {
    const last = this.#writes.get(`${location} ${name}`)
    return last && this.#isRecent(last) ? last.write : undefined
  }

  under(location: string, prefix: string): RecentWrite[] {
    return [...this.#writes.values()]
      .filter((one) => one.location === location && one.write.name.startsWith(prefix) && this.#isRecent(one))
      .map(({ write }) => write)
  }

  #isRecent({ write, at }: Noted): boolean {
    return this.#clock.monotonic() - at < (write.done === 'removed' ? NAME_FREE_MS : LAG_MS)
  }

  #forgetOld(): void {
    for (const [key, noted] of this.#writes) {
      const isOld = this.#clock.monotonic() - noted.at >= NAME_FREE_MS
      if (!isOld && this.#writes.size < MAX_WRITES) return
      this.#writes.delete(key)
    }
  }
}

/** @param location account and region */
export type RateLimiterFor = (location: string) => RateLimiter

type SsmCall<T> = {
  operation: string
  purpose?: SessionPurpose
  limits: CallLimits | undefined
  turns?: RateLimiterFor
  /** Calls of an organization with the same queue share turns; absent: all its other calls. */
  queue?: string
  secrets?: readonly string[]
  isStale?: ((code: string) => boolean) | undefined
  /** @param lost earlier attempts of this call that may have had their effect */
  send(ssm: Ssm, signal: AbortSignal, lost: number): Promise<T>
}

export type ParameterStoreOptions = AwsDependencies & {
  clients: AwsClients
  sessions: Sessions
  writeTurns: RateLimiterFor
  listTurns: RateLimiterFor
}

/** Tag with a random value in each create call: if the response is lost, it tells whether an existing parameter is from this call. */
const WRITE_TAG = 'davit.dev/write'
const WRITE_TAG_BYTES = 12

/** The maximum of the API. */
const PAGE_SIZE = 50
/** A page may be short, even empty, with more to come. */
const SPARE_PAGES = 20
const FEWEST_OF_PAGE = 10
/** Listings until one shows all recent writes; the last one counts as it is. */
const MAX_LISTINGS = 3
const GONE: ReadonlySet<string> = new Set(['InvalidResourceId', 'ParameterNotFound'])

type Put = {
  name: string
  value: SecretText
  limits: CallLimits | undefined
  /** Absent: writes over the parameter. */
  create?: { description: string; tags: OwnerTags; isStale(code: string): boolean }
}

type Filter = { prefix: string; tags?: OwnerTags; limit: number }

/** Calls of Parameter Store in the sessions of organizations. */
export class AwsParameterStore implements ParameterStore, ParameterListing {
  protected readonly options: ParameterStoreOptions
  readonly #recent: ReadLagGuard

  constructor(options: ParameterStoreOptions) {
    this.options = options
    this.#recent = new ReadLagGuard(options.clock)
  }

  async create(
    access: CloudAccess,
    parameter: NewParameter,
    limits?: CallLimits,
  ): Promise<{ version: number }> {
    const location = locationOf(access)
    const { name, value, description } = parameter
    const mark = Buffer.from(this.options.random.bytes(WRITE_TAG_BYTES)).toString('hex')
    const tags = { ...parameter.tags, [WRITE_TAG]: mark }
    // A parameter that was just removed may still seem to exist.
    const isStale = (code: string) =>
      code === 'ParameterAlreadyExists' && this.#recent.lastOf(location, name)?.done === 'removed'
    try {
      const { version } = await this.#put(access, {
        name,
        value,
        limits,
        create: { description, tags, isStale },
      })
      this.#recent.note(location, { name, done: 'written', version })
      return { version }
    } catch (error) {
      if (!isCloudError(error, 'ParameterAlreadyExists')) throw error
      if (!error.unsure) throw isStale(error.code) ? amended(error, { remedy: 'retry' }) : error
      // Version 1, since it did not exist before; a later write by others shows in the version number.
      this.#recent.note(location, { name, done: 'written', version: 1 })
      const written = await this.#tagsAfterWrite(access, name, limits)
      if (written?.[WRITE_TAG] === mark) return { version: 1 }
      throw written === undefined ? error : amended(error, { unsure: false })
    }
  }

  async replace(
    access: CloudAccess,
    name: string,
    value: SecretText,
    limits?: CallLimits,
  ): Promise<{ version: number }> {
    const { version, lost } = await this.#put(access, { name, value, limits })
    this.#recent.note(locationOf(access), { name, done: 'written', version })
    // Versions count from 1: such a low one may be of a parameter that was gone and that this call recreated, without tags. What Davit
    // creates has tags at once; a parameter that does not show yet was created just now.
    const isRecreated = async () =>
      Object.keys((await this.#tagsAfterWrite(access, name, limits)) ?? {}).length === 0
    if (version <= lost + 1 && (version === 1 || (await isRecreated()))) {
      await this.#takeBack(access, name)
      throw new CloudError('gone', 'ParameterNotFound', 'The parameter to overwrite does not exist.', {
        operation: 'ssm:PutParameter',
      })
    }
    return { version }
  }

  async remove(access: CloudAccess, name: string, limits?: CallLimits): Promise<'deleted' | 'not_found'> {
    const location = locationOf(access)
    try {
      await this.run(access, {
        operation: 'ssm:DeleteParameter',
        limits,
        turns: this.options.writeTurns,
        // A deletion holds up its namespace, so it does not wait behind what the organization has to store.
        queue: 'removals',
        // A parameter that was just created may not show yet.
        isStale: (code) =>
          code === 'ParameterNotFound' && this.#recent.lastOf(location, name)?.done === 'written',
        send: ({ module, client }, signal) =>
          client.send(new module.DeleteParameterCommand({ Name: name }), { abortSignal: signal }),
      })
    } catch (error) {
      if (!isCloudError(error, 'ParameterNotFound')) throw error
      // An earlier attempt of this call, whose response was lost, may have removed it.
      if (!error.unsure) return 'not_found'
    }
    this.#recent.note(location, { name, done: 'removed' })
    return 'deleted'
  }

  async list(access: CloudAccess, filter: Filter, limits?: CallLimits): Promise<ListedParameter[]> {
    const location = locationOf(access)
    for (let listing = 1; ; listing += 1) {
      const writes = this.#recent.under(location, `${filter.prefix}/`)
      const listed = await this.#allPages(access, filter, limits)
      if (listing >= MAX_LISTINGS || !writes.some((write) => contradicts(listed, write))) {
        return [...listed.values()]
      }
    }
  }

  async tagsOf(access: CloudAccess, name: string, limits?: CallLimits): Promise<OwnerTags> {
    const location = locationOf(access)
    return await this.run(access, {
      operation: 'ssm:ListTagsForResource',
      limits,
      isStale: (code) => GONE.has(code) && this.#recent.lastOf(location, name)?.done === 'written',
      send: async ({ module, client }, signal) => {
        const command = new module.ListTagsForResourceCommand({ ResourceType: 'Parameter', ResourceId: name })
        const { TagList = [] } = await client.send(command, { abortSignal: signal })
        return Object.fromEntries(TagList.map(({ Key = '', Value = '' }) => [Key, Value]))
      },
    })
  }

  protected async run<T>(access: CloudAccess, call: SsmCall<T>): Promise<T> {
    const { clients, sessions } = this.options
    const { purpose = 'write' } = call
    const { organizationUid } = access
    const flow = call.queue === undefined ? organizationUid : `${organizationUid} ${call.queue}`
    let role: AssumedRole | undefined
    return await runCall(this.options, {
      operation: call.operation,
      limits: call.limits ?? {},
      turns: call.turns && { of: call.turns(locationOf(access)), flow },
      connect: async (signal) => {
        role = await sessions.of(access, purpose, signal)
        return await clients.ssm(access.region, role.credentials)
      },
      send: async (ssm, signal, lost) => await clients.timed(ssm.client, () => call.send(ssm, signal, lost)),
      secrets: () => [...(call.secrets ?? []), ...(role ? [role.credentials.sessionToken] : [])],
      forgetSession: () => {
        if (role) sessions.forget(access, purpose, role)
      },
      isStale: call.isStale,
    })
  }

  /** Undefined if the parameter does not exist. @throws CloudError, `unsure` about the write before it */
  async #tagsAfterWrite(
    access: CloudAccess,
    name: string,
    limits: CallLimits | undefined,
  ): Promise<OwnerTags | undefined> {
    try {
      return await this.tagsOf(access, name, limits)
    } catch (error) {
      if (isCloudError(error) && error.remedy === 'gone') return undefined
      throw isCloudError(error) ? amended(error, { unsure: true }) : error
    }
  }

  /** Also after an abort: nothing would find a parameter without tags. */
  async #takeBack(access: CloudAccess, name: string): Promise<void> {
    try {
      await this.remove(access, name)
    } catch (error) {
      throw isCloudError(error) ? amended(error, { unsure: true }) : error
    }
  }

  async #put(
    access: CloudAccess,
    { name, value, limits, create }: Put,
  ): Promise<{ version: number; lost: number }> {
    return await this.run(access, {
      operation: 'ssm:PutParameter',
      limits,
      turns: this.options.writeTurns,
      secrets: [value.reveal()],
      isStale: create?.isStale,
      send: async ({ module, client }, signal, lost) => {
        const command = new module.PutParameterCommand({
          Name: name,
          Value: value.reveal(),
          Type: 'SecureString',
          // The account's default tier may cost money. Some partitions reject a data type.
          Tier: 'Standard',
          Overwrite: create === undefined,
          KeyId: access.kmsKeyId,
          Description: create?.description,
          Tags: create && Object.entries(create.tags).map(([Key, Value]) => ({ Key, Value })),
        })
        const { Version } = await client.send(command, { abortSignal: signal })
        if (Version === undefined)
          throw new CloudError('retry', 'UnreadableResponse', 'The response does not contain a version.', {
            operation: 'ssm:PutParameter',
            unsure: true,
          })
        return { version: Version, lost }
      },
    })
  }

  async #allPages(
    access: CloudAccess,
    filter: Filter,
    limits: CallLimits | undefined,
  ): Promise<Map<string, ListedParameter>> {
    const { limit, prefix } = filter
    const found = new Map<string, ListedParameter>()
    let token: string | undefined
    for (let pages = 0; pages < SPARE_PAGES + Math.ceil(limit / FEWEST_OF_PAGE); pages += 1) {
      const page = await this.#onePage(access, filter, limits, token)
      for (const one of page.parameters) if (one.name.startsWith(`${prefix}/`)) found.set(one.name, one)
      if (found.size > limit) throw tooMany(`There are more than ${limit} parameters under ${prefix}.`)
      token = page.next
      if (token === undefined) return found
    }
    throw tooMany(`The list of parameters under ${prefix} has too many pages.`)
  }

  async #onePage(
    access: CloudAccess,
    { prefix, tags = {} }: Filter,
    limits: CallLimits | undefined,
    token: string | undefined,
  ): Promise<{ parameters: ListedParameter[]; next: string | undefined }> {
    const ofTags = Object.entries(tags).map(([key, value]) => ({ Key: `tag:${key}`, Values: [value] }))
    return await this.run(access, {
      operation: 'ssm:DescribeParameters',
      limits,
      turns: this.options.listTurns,
      send: async ({ module, client }, signal) => {
        const command = new module.DescribeParametersCommand({
          ParameterFilters: [{ Key: 'Path', Option: 'Recursive', Values: [prefix] }, ...ofTags],
          MaxResults: PAGE_SIZE,
          NextToken: token,
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
}

/** Rate limits and read lag are per account and region. @throws CloudError if the role is no ARN */
function locationOf(access: CloudAccess): string {
  return `${accountOfArn(access.roleArn)}/${access.region}`
}

function amended(error: CloudError, change: { remedy?: CloudRemedy; unsure?: boolean }): CloudError {
  const { remedy, code, message, operation, unsure } = { ...error, message: error.message, ...change }
  return new CloudError(remedy, code, message, { operation, unsure })
}

/** Whether a listing shows the state before a write. */
function contradicts(listed: ReadonlyMap<string, ListedParameter>, write: RecentWrite): boolean {
  const found = listed.get(write.name)
  if (write.done === 'removed') return found !== undefined
  return found === undefined || found.version < write.version
}

function tooMany(message: string): CloudError {
  return new CloudError('spec', 'TooManyParameters', message, { operation: 'ssm:DescribeParameters' })
}
