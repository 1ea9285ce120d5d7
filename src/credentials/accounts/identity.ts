import { namespace as namespaceSchema, namespaces } from '../../apis/core-kinds.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { Organizations } from '../../kube/organizations.ts'
import type { Clock } from '../../lib/clock.ts'
import { externalId, installationId, ownerTags, principalOf, type Tags } from '../aws/names.ts'
import { type AccountProbes, type CloudAccess, CloudError, type CloudFailure } from '../cloud.ts'
import type { CloudResult } from './plan.ts'

/** What came of a call to the cloud, as a value. @throws what is no CloudError */
export async function tryCloud<T>(call: () => Promise<T>): Promise<CloudResult<T>> {
  try {
    return { value: await call() }
  } catch (error) {
    return { failure: failureOf(error) }
  }
}

/** @throws what is no CloudError */
export function failureOf(error: unknown): CloudFailure {
  if (!(error instanceof CloudError)) throw error
  const { remedy, code, message } = error
  return { remedy, code, message }
}

/** Who a trust policy has to name: the operator's own identity, as the settings say or as STS does. */

/** An identity that could not be had is asked for again after so long. */
export const AGAIN_AFTER_MS = 60_000

export class OperatorPrincipal {
  readonly #cloud: AccountProbes
  readonly #clock: Clock
  #known: string | undefined
  #askAgainAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  /** @param given by the operator's settings; absent: STS is asked */
  constructor(cloud: AccountProbes, clock: Clock, given: string | undefined) {
    this.#cloud = cloud
    this.#clock = clock
    this.#known = given
  }

  /** Undefined while it cannot be had; asked for more than once at a time, STS is asked once. */
  async get(region: string): Promise<string | undefined> {
    if (this.#known === undefined && this.#clock.monotonic() >= this.#askAgainAt)
      this.#asking ??= this.#ask(region).finally(() => {
        this.#asking = undefined
      })
    await this.#asking
    return this.#known
  }

  async #ask(region: string): Promise<void> {
    const { value } = await tryCloud(() => this.#cloud.self(region))
    if (value && value.arn !== '') this.#known = principalOf(value.arn)
    this.#askAgainAt = this.#clock.monotonic() + AGAIN_AFTER_MS
  }
}

/** How Davit gets into the account of an organization. */

/** What of SecretsSettings, or of a stored parameter, says where. */
export type AccountRef = { roleArn: string; region: string; kmsKeyId?: string | undefined }

export type AccountAccessOptions = {
  organizations: Organizations
  resources: ResourceReader
  installationKey: Uint8Array
}

export class AccountAccess {
  readonly #options: AccountAccessOptions
  /** Id of this installation, as in the tags of its parameters. */
  readonly installation: string

  constructor(options: AccountAccessOptions) {
    this.#options = options
    this.installation = installationId(options.installationKey)
  }

  /** @throws ApiError where the organization is not known and its namespace cannot be read */
  async accessTo(organization: string, place: AccountRef): Promise<CloudAccess> {
    const organizationUid = await this.uidOf(organization)
    return this.accessAs({ organization, organizationUid }, place)
  }

  accessAs(
    { organization, organizationUid }: { organization: string; organizationUid: string },
    { roleArn, region, kmsKeyId }: AccountRef,
  ): CloudAccess {
    return {
      organization,
      organizationUid,
      roleArn,
      region,
      externalId: this.externalIdOf(organizationUid),
      ...(kmsKeyId === undefined ? {} : { kmsKeyId }),
    }
  }

  externalIdOf(organizationUid: string): string {
    return externalId(this.#options.installationKey, organizationUid)
  }

  tagsOf({ organization, organizationUid }: CloudAccess, credential?: string): Tags {
    const { installation } = this
    return ownerTags({
      installation,
      organizationUid,
      organization,
      ...(credential === undefined ? {} : { credential }),
    })
  }

  /** A namespace that is no organization any more still has an account to clean. */
  async uidOf(organization: string): Promise<string> {
    const { organizations, resources } = this.#options
    const known = organizations.get(organization)
    if (known) return known.uid
    const found = namespaceSchema.parse(await resources.get(namespaces, { name: organization }))
    return organizations.originalUid(found.metadata.uid)
  }
}
