/** Accounts in memory with the semantics of the ports: unique names, versions, tags, roles, external ids, and errors. */

import { sessionArn } from '../../../src/credentials/aws/policies.ts'
import {
  type AccountProbes,
  type CallLimits,
  type CloudAccess,
  CloudError,
  type ListedParameter,
  type NewParameter,
  type OwnerTags,
  type ParameterListing,
  type ParameterStore,
} from '../../../src/credentials/cloud.ts'
import type { SecretText } from '../../../src/lib/redact.ts'
import type { Clock } from '../../../src/lib/time.ts'

export type Held = { versions: { value: string; by: string; at: number }[]; tags: OwnerTags; keyId?: string }
export type Mood = 'normal' | 'denied' | 'unreachable'

export const PREFIX = '/davit'
const OPERATOR = 'arn:aws:iam::999999999999:user/davit'

export class MemoryCloud {
  /** By `<account> <region>`, by name. */
  readonly stores = new Map<string, Map<string, Held>>()
  /** External ids by role ARN. */
  readonly roles = new Map<string, string>()
  readonly moods = new Map<string, Mood>()
  /** Calls that wait until the promise resolves, by action, or by action and caller. */
  readonly held = new Map<string, Promise<void>>()
  /** Actions that no role may do; `ssm:Delete` also in one account, as `ssm:Delete 222222222222`. */
  readonly refused = new Set<string>()
  /** Number of calls that are still throttled, by action. */
  readonly throttled = new Map<string, number>()
  isSelfUnknown = false
  /** Forbidden actions that a session tried. */
  readonly wrongs: string[] = []
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  addRole(roleArn: string, externalId: string): void {
    this.roles.set(roleArn, externalId)
  }

  store(account: string, region: string): Map<string, Held> {
    const key = `${account} ${region}`
    const store = this.stores.get(key) ?? new Map<string, Held>()
    this.stores.set(key, store)
    return store
  }

  /** The ports of one process. */
  ports(call: <T>(name: string, run: () => Promise<T>) => Promise<T>): Ports {
    const after = async <T>(
      name: string,
      limits: CallLimits | undefined,
      run: () => T,
      organization = '',
    ): Promise<T> => {
      await this.#turn(name, limits)
      await this.#turn(`${name} ${organization}`, limits)
      return await call(name, async () => {
        if (this.refused.has(name)) throw failure('permissions', 'AccessDeniedException')
        const throttled = this.throttled.get(name) ?? 0
        this.throttled.set(name, throttled - 1)
        if (throttled > 0) throw failure('retry', 'ThrottlingException')
        return run()
      })
    }
    return {
      create: (access, parameter, limits) =>
        after('ssm:Put', limits, () => this.#create(access, parameter), access.organization),
      replace: (access, name, value, limits) =>
        after('ssm:Put', limits, () => this.#replace(access, name, value)),
      remove: (access, name, limits) => after('ssm:Delete', limits, () => this.#remove(access, name)),
      list: (access, { prefix }, limits) => after('ssm:Describe', limits, () => this.#list(access, prefix)),
      tagsOf: (access, name, limits) => after('ssm:ListTags', limits, () => this.#tagsOf(access, name)),
      self: (limits) => after('sts:Identity', limits, () => this.#self()),
      identify: (access, limits) =>
        after('sts:AssumeRole', limits, () => {
          this.#enter(access)
          return { account: accountOf(access), arn: sessionArn(access) }
        }),
      readable: (access, name, limits) =>
        after('ssm:Get', limits, () => {
          this.#enter(access, name)
          return { operations: [], code: 'AccessDeniedException' }
        }),
      refusesOtherId: (access, limits) =>
        after('sts:AssumeRole', limits, () => {
          this.#enter(access)
          return { refused: true, code: 'AccessDenied' }
        }),
    }
  }

  /** Waits like a call in a queue; an aborted call stops waiting. */
  async #turn(name: string, { signal }: CallLimits = {}): Promise<void> {
    const turn = this.held.get(name)
    if (!turn) return
    const { promise: canceled, reject } = Promise.withResolvers<never>()
    const cancel = () => reject(failure('retry', 'Canceled'))
    if (signal?.aborted) cancel()
    signal?.addEventListener('abort', cancel, { once: true })
    await Promise.race([turn, canceled])
  }

  #self(): { arn: string } {
    if (this.isSelfUnknown) throw failure('permissions', 'NoIdentity')
    return { arn: OPERATOR }
  }

  #create(access: CloudAccess, { name, value, tags }: NewParameter): { version: number } {
    const store = this.#enter(access, name)
    if (store.has(name)) throw failure('spec', 'ParameterAlreadyExists')
    store.set(name, { versions: [this.#version(access, value)], tags, ...keyOf(access) })
    return { version: 1 }
  }

  #replace(access: CloudAccess, name: string, value: SecretText): { version: number } {
    const held = this.#enter(access, name).get(name)
    if (!held) throw failure('gone', 'ParameterNotFound')
    held.versions.push(this.#version(access, value))
    return { version: held.versions.length }
  }

  #remove(access: CloudAccess, name: string): 'deleted' | 'not_found' {
    if (this.refused.has(`ssm:Delete ${accountOf(access)}`))
      throw failure('permissions', 'AccessDeniedException')
    const store = this.#enter(access, name)
    const owner = store.get(name)?.tags['davit.dev/organization-uid']
    if (owner !== undefined && owner !== access.organizationUid)
      this.wrongs.push(`${access.organization} removed ${name} of ${owner}`)
    if (owner === undefined && store.has(name)) this.wrongs.push(`${name} is nobody's, and was removed`)
    return store.delete(name) ? 'deleted' : 'not_found'
  }

  #list(access: CloudAccess, prefix: string): ListedParameter[] {
    return [...this.#enter(access)].flatMap(([name, { versions, keyId }]) => {
      const last = versions.at(-1)
      if (!last || !name.startsWith(`${prefix}/`)) return []
      const parameter = { name, version: versions.length, type: 'SecureString', modifiedBy: last.by }
      return [{ ...parameter, modifiedAt: last.at, ...(keyId === undefined ? {} : { kmsKeyId: keyId }) }]
    })
  }

  #tagsOf(access: CloudAccess, name: string): OwnerTags {
    const held = this.#enter(access, name).get(name)
    if (!held) throw failure('gone', 'InvalidResourceId')
    return held.tags
  }

  #enter(access: CloudAccess, name?: string): Map<string, Held> {
    const account = accountOf(access)
    const mood = this.moods.get(account) ?? 'normal'
    if (mood === 'unreachable') throw failure('retry', 'Unreachable')
    if (mood === 'denied' || this.roles.get(access.roleArn) !== access.externalId)
      throw failure('permissions', 'AccessDenied')
    if (name !== undefined && !name.startsWith(`${PREFIX}/${access.organization}/`))
      this.wrongs.push(`${access.organization} came to ${name}`)
    return this.store(account, access.region)
  }

  #version(access: CloudAccess, value: SecretText) {
    return { value: value.reveal(), by: sessionArn(access), at: this.#clock.now() }
  }
}

export type Ports = ParameterStore & ParameterListing & AccountProbes

function accountOf({ roleArn }: CloudAccess): string {
  return roleArn.split(':')[4] ?? ''
}

function keyOf({ kmsKeyId }: CloudAccess): { keyId?: string } {
  return kmsKeyId === undefined ? {} : { keyId: kmsKeyId }
}

function failure(remedy: CloudError['remedy'], code: string): CloudError {
  return new CloudError(remedy, code, 'so it is', { operation: 'ssm:Some' })
}
