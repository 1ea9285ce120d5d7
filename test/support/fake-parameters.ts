/** Accounts of organizations in memory: parameters with their versions and tags, and scripted failures. */

import { sessionArn } from '../../src/credentials/aws/policies.ts'
import {
  type CloudAccess,
  CloudError,
  type ListedParameter,
  type NewParameter,
  type OwnerTags,
  type ParameterListing,
  type ParameterStore,
} from '../../src/credentials/cloud.ts'
import type { SecretText } from '../../src/lib/redact.ts'

export type HeldParameter = {
  /** Account and region, as `222222222222/eu-west-1`. */
  location: string
  name: string
  /** Values, oldest first. */
  versions: string[]
  tags: OwnerTags
  modifiedBy: string
  modifiedAt: number
  access: CloudAccess
}

export class FakeParameters implements ParameterStore, ParameterListing {
  readonly #now: () => number
  readonly held: HeldParameter[] = []
  /** Thrown by the next call of the method, which has no effect. */
  readonly failing = new Map<keyof ParameterStore | keyof ParameterListing, CloudError>()
  /** Called after each new version. */
  onWrite: () => Promise<void> = async () => undefined
  /** Awaited by every call. */
  hold: Promise<unknown> | undefined

  /** @param now milliseconds since 1970 */
  constructor(now: () => number) {
    this.#now = now
  }

  async create(access: CloudAccess, parameter: NewParameter): Promise<{ version: number }> {
    await this.#answer('create')
    const { name, value, tags } = parameter
    if (this.#find(access, name))
      throw new CloudError('spec', 'ParameterAlreadyExists', 'It is there.', {
        operation: 'ssm:PutParameter',
      })
    const modifiedBy = sessionArn(access)
    const modifiedAt = this.#now()
    this.held.push({
      location: locationKey(access),
      name,
      versions: [value.reveal()],
      tags,
      modifiedBy,
      modifiedAt,
      access,
    })
    return { version: 1 }
  }

  async replace(access: CloudAccess, name: string, value: SecretText): Promise<{ version: number }> {
    await this.#answer('replace')
    const found = this.#find(access, name)
    if (!found) throw gone('ssm:PutParameter')
    found.modifiedBy = sessionArn(access)
    found.modifiedAt = this.#now()
    const version = found.versions.push(value.reveal())
    await this.onWrite()
    return { version }
  }

  async remove(access: CloudAccess, name: string): Promise<'deleted' | 'not_found'> {
    await this.#answer('remove')
    const found = this.#find(access, name)
    if (!found) return 'not_found'
    this.held.splice(this.held.indexOf(found), 1)
    return 'deleted'
  }

  async list(
    access: CloudAccess,
    { prefix, tags = {} }: { prefix: string; tags?: OwnerTags },
  ): Promise<ListedParameter[]> {
    await this.#answer('list')
    return this.held
      .filter(({ location, name }) => location === locationKey(access) && name.startsWith(`${prefix}/`))
      .filter((held) => Object.entries(tags).every(([key, value]) => held.tags[key] === value))
      .map(({ name, versions, modifiedBy, modifiedAt }) => ({
        name,
        version: versions.length,
        type: 'SecureString',
        modifiedAt,
        modifiedBy,
      }))
  }

  async tagsOf(access: CloudAccess, name: string): Promise<OwnerTags> {
    await this.#answer('tagsOf')
    const found = this.#find(access, name)
    if (!found) throw gone('ssm:ListTagsForResource')
    return found.tags
  }

  #find(access: CloudAccess, name: string): HeldParameter | undefined {
    return this.held.find((held) => held.location === locationKey(access) && held.name === name)
  }

  async #answer(method: keyof ParameterStore | keyof ParameterListing): Promise<void> {
    await this.hold
    const failure = this.failing.get(method)
    this.failing.delete(method)
    if (failure) throw failure
  }
}

function locationKey({ roleArn, region }: CloudAccess): string {
  return `${roleArn.split(':')[4]}/${region}`
}

function gone(operation: string): CloudError {
  return new CloudError('gone', 'ParameterNotFound', 'It is not there.', { operation })
}
