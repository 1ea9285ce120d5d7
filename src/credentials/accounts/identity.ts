import { namespace as namespaceSchema, namespaces, secret, secrets } from '../../apis/core-kinds.ts'
import { findObject, isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Organizations } from '../../kube/organizations.ts'
import type { Clock, Random } from '../../lib/time.ts'
import { externalId, principalOf } from '../aws/names.ts'
import { installationId, type Owner, ownerTags } from '../aws/parameter-tags.ts'
import {
  type AccountProbes,
  type CloudAccess,
  CloudError,
  type CloudResult,
  type OwnerTags,
} from '../cloud.ts'

/** The key of the installation: a Secret in the operator's namespace, created once and the same for every replica. */

export const INSTALLATION_KEY_NAME = 'davit-installation-key'
const KEY_BYTES = 32

export type InstallationKeyOptions = {
  resources: ResourceReader & ResourceWriter
  namespace: string
  random: Random
}

/**
 * Reads the key, or creates it; of several replicas that create it at the same time the first wins. Each use derives its own key
 * (`deriveKey` in lib/text.ts).
 * @throws ApiError; Error if the Secret exists and holds no key
 */
export async function installationKey(options: InstallationKeyOptions): Promise<Uint8Array> {
  const { resources, namespace, random } = options
  const known = await readKey(options)
  if (known) return known
  const key = random.bytes(KEY_BYTES)
  try {
    await resources.create(secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: INSTALLATION_KEY_NAME },
      type: 'Opaque',
      data: { key: Buffer.from(key).toString('base64') },
    })
    return key
  } catch (error) {
    if (!isApiError(error, 'AlreadyExists')) throw error
  }
  const held = await readKey(options)
  if (!held)
    throw new Error(`the Secret ${namespace}/${INSTALLATION_KEY_NAME} was deleted right after it was created`)
  return held
}

async function readKey({ resources, namespace }: InstallationKeyOptions): Promise<Uint8Array | undefined> {
  const raw = await findObject(resources, secrets, { namespace, name: INSTALLATION_KEY_NAME })
  if (!raw) return undefined
  const key = Buffer.from(secret.parse(raw).data?.key ?? '', 'base64')
  // Anyone could compute the hashes of an empty key.
  if (key.length >= KEY_BYTES) return key
  throw new Error(
    `the Secret ${namespace}/${INSTALLATION_KEY_NAME} does not contain a key of at least ${KEY_BYTES} bytes`,
  )
}

/**
 * Who Davit is in the cloud accounts of organizations: its own principal, the external id of each organization, and the tags that mark
 * parameters as its own. Every process of one installation derives the same from the installation key.
 */

/** Which account, as SecretsSettings or a stored parameter has it. */
export type AccountRef = { roleArn: string; region: string; kmsKeyId?: string | undefined }

export class AccountIdentity {
  readonly #key: Uint8Array
  /** Every parameter is under it, such as `/davit`. */
  readonly prefix: string
  readonly installation: string

  /** @param prefix from the configuration */
  constructor(installationKey: Uint8Array, prefix: string) {
    this.#key = installationKey
    this.prefix = prefix
    this.installation = installationId(installationKey)
  }

  externalIdOf(organizationUid: string): string {
    return externalId(this.#key, organizationUid)
  }

  ownerOf(organizationUid: string): Owner {
    return { installation: this.installation, organizationUid }
  }

  accessAs(
    { organization, organizationUid }: { organization: string; organizationUid: string },
    { roleArn, region, kmsKeyId }: AccountRef,
  ): CloudAccess {
    const externalId = this.externalIdOf(organizationUid)
    return { organization, organizationUid, roleArn, region, externalId, kmsKeyId }
  }

  /** Tags of a new parameter. @param credential absent for the probe */
  tagsOf({ organization, organizationUid }: CloudAccess, credential?: string): OwnerTags {
    const owner = { ...this.ownerOf(organizationUid), organization }
    return ownerTags(credential === undefined ? owner : { ...owner, credential })
  }
}

/** The same, for organizations that are known by name. */
export class AccountAccess extends AccountIdentity {
  readonly #organizations: Organizations
  readonly #resources: ResourceReader

  constructor(
    installationKey: Uint8Array,
    prefix: string,
    organizations: Organizations,
    resources: ResourceReader,
  ) {
    super(installationKey, prefix)
    this.#organizations = organizations
    this.#resources = resources
  }

  /** @throws ApiError if the organization is unknown and its namespace cannot be read */
  async accessTo(organization: string, account: AccountRef): Promise<CloudAccess> {
    return this.accessAs({ organization, organizationUid: await this.uidOf(organization) }, account)
  }

  /** Also for a namespace that is no longer an organization: its account still has to be cleaned. */
  async uidOf(organization: string): Promise<string> {
    const known = this.#organizations.get(organization)
    if (known) return known.uid
    const found = namespaceSchema.parse(await this.#resources.get(namespaces, { name: organization }))
    return this.#organizations.originalUid(found.metadata.uid)
  }
}

/** The result of a call to the cloud, as a value. @throws everything but CloudError */
export async function tryCloud<T>(call: () => Promise<T>): Promise<CloudResult<T>> {
  try {
    return { value: await call() }
  } catch (error) {
    if (!(error instanceof CloudError)) throw error
    const { remedy, code, message } = error
    return { failure: { remedy, code, message } }
  }
}

/** Wait before an identity that could not be determined is asked for again. */
export const AGAIN_AFTER_MS = 60_000

/** The principal that trust policies have to name: as configured, or as STS reports it. */
export class OperatorPrincipal {
  readonly #cloud: AccountProbes
  readonly #clock: Clock
  #known: string | undefined
  #askAgainAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  /** @param configured absent: STS is asked */
  constructor(cloud: AccountProbes, clock: Clock, configured: string | undefined) {
    this.#cloud = cloud
    this.#clock = clock
    this.#known = configured
  }

  /** Undefined while it is unknown. Concurrent callers share one call to STS, so it depends on nothing that an organization has set. */
  async get(): Promise<string | undefined> {
    if (this.#known === undefined && this.#clock.monotonic() >= this.#askAgainAt)
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = undefined
      })
    await this.#asking
    return this.#known
  }

  async #ask(): Promise<void> {
    const { value } = await tryCloud(() => this.#cloud.self())
    if (value && value.arn !== '') this.#known = principalOf(value.arn)
    this.#askAgainAt = this.#clock.monotonic() + AGAIN_AFTER_MS
  }
}
