import type { JsonWebKey } from 'node:crypto'
import { type Policy, type PolicyDocument, parsePolicy } from './iam/policy.ts'
import { uniqueId } from './identifiers.ts'
import type { KeyStore } from './key-store.ts'
import type { ParameterStore } from './parameter-store.ts'
import type { Partition } from './partitions.ts'
import type { Credentials } from './principal.ts'

export type Tags = Readonly<Record<string, string>>

/** Policies by the name that they have in the account. */
export type Policies = Readonly<Record<string, PolicyDocument>>

export type User = {
  readonly name: string
  readonly arn: string
  readonly id: string
  readonly tags: ReadonlyMap<string, string>
  policies: readonly Policy[]
}

export type RoleOptions = {
  trust: PolicyDocument
  policies?: Policies
  tags?: Tags
  /** How long a session may last; an hour unless said. */
  maxSessionSeconds?: number
}

export type Role = {
  readonly name: string
  readonly arn: string
  readonly id: string
  readonly tags: ReadonlyMap<string, string>
  readonly maxSessionSeconds: number
  trust: Policy
  policies: readonly Policy[]
}

/** A public key of a JWKS. */
export type IdentityKey = JsonWebKey & { kid?: string }

/** Whose tokens the account believes, for AssumeRoleWithWebIdentity. */
export type IdentityProvider = {
  readonly arn: string
  /** As the claim `iss` has it. */
  readonly issuer: string
  audiences: readonly string[]
  /** Public keys, as the issuer's JWKS has them. */
  keys: readonly IdentityKey[]
}

export type RegionStores = { parameters: ParameterStore; keys: KeyStore }

/** What an account needs of the whole. */
export type AccountParts = {
  newKey(account: Account, user: User): Credentials
  newRegion(account: Account, region: string): RegionStores
}

const MAX_SESSION_SECONDS = { default: 3_600, least: 3_600, most: 43_200 }
/** Characters of all inline policies of one. Source: IAM User Guide, "IAM and AWS STS quotas". */
const INLINE_QUOTAS = { user: 2_048, role: 10_240 }

export class Account {
  readonly id: string
  readonly partition: Partition
  /** A closed account knows nobody any more, and nobody gets into it. */
  isClosed = false
  readonly #parts: AccountParts
  readonly #users = new Map<string, User>()
  readonly #roles = new Map<string, Role>()
  readonly #providers = new Map<string, IdentityProvider>()
  readonly #regions = new Map<string, RegionStores>()

  constructor(id: string, partition: Partition, parts: AccountParts) {
    if (!/^\d{12}$/.test(id)) throw new RangeError(`${id} is no account id`)
    this.id = id
    this.partition = partition
    this.#parts = parts
  }

  addUser(name: string, options: { policies?: Policies; tags?: Tags } = {}): User {
    const user: User = {
      name,
      arn: this.iamArn(`user/${name}`),
      id: uniqueId('AIDA'),
      tags: new Map(Object.entries(options.tags ?? {})),
      policies: inlinePolicies(options.policies, INLINE_QUOTAS.user),
    }
    this.#users.set(name, user)
    return user
  }

  /** @returns a new access key of the user, for AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY */
  addAccessKey(user: User): Credentials {
    return this.#parts.newKey(this, user)
  }

  /** @param name may have a path before it, as in `davit/writer` */
  addRole(name: string, options: RoleOptions): Role {
    const seconds = options.maxSessionSeconds ?? MAX_SESSION_SECONDS.default
    if (seconds < MAX_SESSION_SECONDS.least || seconds > MAX_SESSION_SECONDS.most)
      throw new RangeError(`a role cannot have sessions of ${seconds} s`)
    const role: Role = {
      name: name.slice(name.lastIndexOf('/') + 1),
      arn: this.iamArn(`role/${name}`),
      id: uniqueId('AROA'),
      tags: new Map(Object.entries(options.tags ?? {})),
      maxSessionSeconds: seconds,
      trust: parsePolicy(options.trust, 'trust'),
      policies: inlinePolicies(options.policies, INLINE_QUOTAS.role),
    }
    this.#roles.set(role.arn, role)
    return role
  }

  /** Changes what a role may do or whom it trusts, at once and for the sessions that there are too. */
  changeRole(role: Role, change: { trust?: PolicyDocument; policies?: Policies }): void {
    if (change.trust !== undefined) role.trust = parsePolicy(change.trust, 'trust')
    if (change.policies !== undefined) role.policies = inlinePolicies(change.policies, INLINE_QUOTAS.role)
  }

  /** @param issuer as the claim `iss` has it; AWS takes none with a port, tests do */
  addIdentityProvider(
    issuer: string,
    options: { audiences: readonly string[]; keys: readonly IdentityKey[] },
  ): IdentityProvider {
    const arn = this.iamArn(`oidc-provider/${issuer.replace(/^https:\/\//, '')}`)
    const provider = { arn, issuer, ...options }
    this.#providers.set(issuer, provider)
    return provider
  }

  identityProvider(issuer: string): IdentityProvider | undefined {
    return this.#providers.get(issuer)
  }

  /** Its sessions end with it. */
  removeRole(role: Role): void {
    this.#roles.delete(role.arn)
  }

  has(role: Role): boolean {
    return this.#roles.get(role.arn) === role
  }

  role(arn: string): Role | undefined {
    return this.#roles.get(arn)
  }

  close(): void {
    this.isClosed = true
  }

  parameters(region: string): ParameterStore {
    return this.#region(region).parameters
  }

  keys(region: string): KeyStore {
    return this.#region(region).keys
  }

  /** Regions in which something was done. */
  get regions(): string[] {
    return [...this.#regions.keys()].sort()
  }

  iamArn(resource: string): string {
    return `arn:${this.partition.name}:iam::${this.id}:${resource}`
  }

  #region(region: string): RegionStores {
    if (!this.partition.regions.test(region))
      throw new RangeError(`${region} is not in ${this.partition.name}`)
    const known = this.#regions.get(region)
    if (known) return known
    const stores = this.#parts.newRegion(this, region)
    this.#regions.set(region, stores)
    return stores
  }
}

function inlinePolicies(policies: Policies | undefined, quota: number): Policy[] {
  const documents = Object.values(policies ?? {})
  const size = documents
    .map((document) => (typeof document === 'string' ? document : JSON.stringify(document)))
    .reduce((sum, text) => sum + text.replace(/\s/g, '').length, 0)
  if (size > quota) throw new RangeError(`inline policies of ${size} characters; at most ${quota}`)
  return documents.map((document) => parsePolicy(document, 'identity'))
}
