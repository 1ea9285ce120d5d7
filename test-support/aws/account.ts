import { createCipheriv, type JsonWebKey, randomBytes, randomUUID } from 'node:crypto'
import { type Policy, type PolicyDocument, parsePolicy } from './iam/policy.ts'
import { uniqueId } from './identifiers.ts'
import type { Partition } from './partitions.ts'

/** The caller: a user with an access key, or a session of an assumed role. */
export type Principal = {
  account: Account
  /** ARN of the user, or of the role session. */
  arn: string
  /** In the form of GetCallerIdentity. */
  userId: string
  /** Tags of the user or role, overridden by those of the session. */
  tags: ReadonlyMap<string, string>
  policies: readonly Policy[]
  userName?: string
  session?: Session
}

/** The result of AssumeRole. */
export type Session = {
  role: Role
  name: string
  /** The inline session policy as it was sent; `policy` is its parsed form. */
  policyText: string | undefined
  policy: Policy | undefined
  tags: ReadonlyMap<string, string>
  externalId: string | undefined
  /** ARN of the principal that assumed the role. */
  caller: string
  issuedAt: number
  expiresAt: number
}

export type Credentials = { accessKeyId: string; secretAccessKey: string }

export type KeyState = 'Disabled' | 'Enabled' | 'PendingDeletion'

export type KmsKey = {
  readonly id: string
  readonly arn: string
  /** Only a symmetric key encrypts parameters. */
  readonly isSymmetric: boolean
  state: KeyState
  policy: Policy
  readonly secret: Buffer
}

export type KeyOptions = { alias?: string; policy?: PolicyDocument; isSymmetric?: boolean }

/** The key that AWS creates in each account and region for parameters without their own key. */
export const DEFAULT_KEY = 'alias/aws/ssm'

const MAX_KEYS = 1_000

/** The KMS keys of an account in a region. */
export class KeyStore {
  readonly #account: Account
  readonly #region: string
  readonly #keys = new Map<string, KmsKey>()
  readonly #aliases = new Map<string, KmsKey>()

  constructor(account: Account, region: string) {
    this.#account = account
    this.#region = region
  }

  /** Without a key policy, the account's policies decide. @param options.alias with its `alias/` */
  add(options: KeyOptions = {}): KmsKey {
    if (this.#keys.size >= MAX_KEYS) throw new RangeError(`more than ${MAX_KEYS} keys`)
    const id = randomUUID()
    const key: KmsKey = {
      id,
      arn: this.#arn(`key/${id}`),
      isSymmetric: options.isSymmetric ?? true,
      state: 'Enabled',
      policy: parsePolicy(options.policy ?? this.#accountDecides(), 'key'),
      secret: randomBytes(32),
    }
    this.#keys.set(id, key)
    if (options.alias !== undefined) this.#aliases.set(options.alias, key)
    return key
  }

  /** @param name id, ARN, alias or ARN of an alias */
  find(name: string): KmsKey | undefined {
    const prefix = this.#arn('')
    const plain = name.startsWith(prefix) ? name.slice(prefix.length) : name
    if (plain === DEFAULT_KEY) return this.#defaultKey()
    if (plain.startsWith('alias/')) return this.#aliases.get(plain)
    return this.#keys.get(plain.replace(/^key\//, ''))
  }

  #defaultKey(): KmsKey {
    return this.#aliases.get(DEFAULT_KEY) ?? this.add({ alias: DEFAULT_KEY, policy: this.#managedPolicy() })
  }

  #arn(resource: string): string {
    return `arn:${this.#account.partition.name}:kms:${this.#region}:${this.#account.id}:${resource}`
  }

  #accountDecides(): PolicyDocument {
    const Principal = { AWS: this.#account.iamArn('root') }
    return {
      Version: '2012-10-17',
      Statement: { Effect: 'Allow', Principal, Action: 'kms:*', Resource: '*' },
    }
  }

  /** Source: Systems Manager User Guide, "Restricting decryption": every principal of the account, through SSM; KMS Developer Guide, "AWS managed keys". */
  #managedPolicy(): PolicyDocument {
    const through = {
      'kms:CallerAccount': this.#account.id,
      'kms:ViaService': viaService(this.#account, this.#region),
    }
    return {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: '*' },
          Action: ['kms:Encrypt', 'kms:Decrypt', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:DescribeKey'],
          Resource: '*',
          Condition: { StringEquals: through },
        },
        {
          Effect: 'Allow',
          Principal: { AWS: this.#account.iamArn('root') },
          Action: ['kms:Describe*', 'kms:Get*', 'kms:List*'],
          Resource: '*',
        },
      ],
    }
  }
}

/** The name of SSM in the condition kms:ViaService. */
export function viaService({ partition }: Account, region: string): string {
  return `ssm.${region}.${partition.suffixes[0]}`
}

/** The ciphertext that SSM stores and returns to readers without decryption: it reveals nothing of the text. */
export function encrypt(key: KmsKey, text: string): string {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key.secret, iv)
  return Buffer.concat([
    Buffer.from('01020200', 'hex'),
    iv,
    cipher.update(text, 'utf8'),
    cipher.final(),
    cipher.getAuthTag(),
  ]).toString('base64')
}

export type ParameterType = 'SecureString' | 'String' | 'StringList'
export type Tier = 'Advanced' | 'Standard'

export type ParameterVersion = {
  readonly version: number
  readonly type: ParameterType
  readonly value: string
  /** What readers without decryption get for a SecureString. */
  readonly ciphertext: string | undefined
  readonly keyId: string | undefined
  readonly description: string | undefined
  readonly tier: Tier
  readonly labels: readonly string[]
  /** Milliseconds since 1970. */
  readonly modifiedAt: number
  /** ARN of the principal that wrote it. */
  readonly modifiedBy: string
}

/** Immutable and only ever replaced, so that older states can be kept. */
export type Parameter = {
  readonly name: string
  /** Oldest first, never empty. */
  readonly versions: readonly ParameterVersion[]
  readonly tags: ReadonlyMap<string, string>
}

type Change = { name: string; at: number; before: Parameter | undefined }

export const MAX_PARAMETERS: Readonly<Record<Tier, number>> = { Standard: 10_000, Advanced: 100_000 }
const MAX_CHANGES = 20_000

/** The parameters of an account in a region. It enforces no rules. */
export class ParameterStore {
  readonly account: Account
  readonly region: string
  readonly keys: KeyStore
  /** The tier of a new parameter that names none: a setting of the account. */
  defaultTier: Tier | 'Intelligent-Tiering' = 'Standard'
  readonly #parameters = new Map<string, Parameter>()
  /** Latest last. */
  readonly #changes: Change[] = []

  constructor(account: Account, region: string, keys: KeyStore) {
    this.account = account
    this.region = region
    this.keys = keys
  }

  /** @param before time of the wanted state; absent: now */
  get(name: string, before?: number): Parameter | undefined {
    if (before === undefined) return this.#parameters.get(name)
    return this.#asOf(before, (change) => change.name === name).get(name)
  }

  /** Sorted by name. @param before time of the wanted state; absent: now */
  list(before?: number): Parameter[] {
    const found = before === undefined ? this.#parameters : this.#asOf(before, () => true)
    return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  put(parameter: Parameter, now: number): void {
    this.#remember(parameter.name, now)
    this.#parameters.set(parameter.name, parameter)
  }

  delete(name: string, now: number): void {
    this.#remember(name, now)
    this.#parameters.delete(name)
  }

  count(tier: Tier): number {
    let count = 0
    for (const { versions } of this.#parameters.values()) if (versions.at(-1)?.tier === tier) count += 1
    return count
  }

  /** For tests: the stored value, which a role without read permission cannot ask for. */
  value(name: string): string | undefined {
    return this.#parameters.get(name)?.versions.at(-1)?.value
  }

  arn(name: string): string {
    const { id, partition } = this.account
    return `arn:${partition.name}:ssm:${this.region}:${id}:parameter/${name.replace(/^\//, '')}`
  }

  /** Reverts the changes since a time, latest first. */
  #asOf(time: number, isMeant: (change: Change) => boolean): Map<string, Parameter> {
    const parameters = new Map(this.#parameters)
    for (const change of this.#changes.toReversed()) {
      if (change.at <= time) break
      if (!isMeant(change)) continue
      if (change.before) parameters.set(change.name, change.before)
      else parameters.delete(change.name)
    }
    return parameters
  }

  #remember(name: string, at: number): void {
    this.#changes.push({ name, at, before: this.#parameters.get(name) })
    if (this.#changes.length > MAX_CHANGES) this.#changes.splice(0, MAX_CHANGES / 2)
  }
}

export type Tags = Readonly<Record<string, string>>

/** Policies by their name in the account. */
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
  /** Maximum duration of a session; absent: one hour. */
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

/** An issuer whose tokens the account accepts in AssumeRoleWithWebIdentity. */
export type IdentityProvider = {
  readonly arn: string
  /** As in the claim `iss`. */
  readonly issuer: string
  audiences: readonly string[]
  /** Public keys, as in the issuer's JWKS. */
  keys: readonly IdentityKey[]
}

export type RegionStores = { parameters: ParameterStore; keys: KeyStore }

/** The parts of the emulator that an account needs. */
export type AccountParts = {
  newKey(account: Account, user: User): Credentials
  newRegion(account: Account, region: string): RegionStores
}

const MAX_SESSION_SECONDS = { default: 3_600, least: 3_600, most: 43_200 }
/** Maximum number of characters of all inline policies of a user or role. Source: IAM User Guide, "IAM and AWS STS quotas". */
const INLINE_QUOTAS = { user: 2_048, role: 10_240 }

export class Account {
  readonly id: string
  readonly partition: Partition
  /** A closed account accepts no principal any more. */
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

  /** @param name may include a path, as in `davit/writer` */
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

  /** Changes the policies or the trust policy of a role, effective immediately and for existing sessions as well. */
  changeRole(role: Role, change: { trust?: PolicyDocument; policies?: Policies }): void {
    if (change.trust !== undefined) role.trust = parsePolicy(change.trust, 'trust')
    if (change.policies !== undefined) role.policies = inlinePolicies(change.policies, INLINE_QUOTAS.role)
  }

  /** @param issuer as in the claim `iss`; AWS accepts none with a port, tests use one */
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

  /** Removes a role and ends its sessions. */
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

  /** Regions that have been used. */
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
