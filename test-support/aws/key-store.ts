import { createCipheriv, randomBytes, randomUUID } from 'node:crypto'
import type { Account } from './account.ts'
import { type Policy, type PolicyDocument, parsePolicy } from './iam/policy.ts'

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

/** The key that AWS makes in each account and region for parameters without a key of their own. */
export const DEFAULT_KEY = 'alias/aws/ssm'

const MAX_KEYS = 1_000

/** The keys of an account in a region. */
export class KeyStore {
  readonly #account: Account
  readonly #region: string
  readonly #keys = new Map<string, KmsKey>()
  readonly #aliases = new Map<string, KmsKey>()

  constructor(account: Account, region: string) {
    this.#account = account
    this.#region = region
  }

  /** Without a policy of its own, the account's policies decide. @param options.alias with its `alias/` */
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

/** How KMS knows SSM, for the condition kms:ViaService. */
export function viaService({ partition }: Account, region: string): string {
  return `ssm.${region}.${partition.suffixes[0]}`
}

/** What SSM keeps and gives to those who read without decryption: nothing of the text can be seen in it. */
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
