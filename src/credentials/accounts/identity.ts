/** How Davit gets into the account of an organization. */
import { namespace as namespaceSchema, namespaces } from '../../apis/core-kinds.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { Organizations } from '../../kube/organizations.ts'
import { externalId } from '../aws/external-id.ts'
import { installationId, ownerTags, type Tags } from '../aws/owner-tags.ts'
import type { CloudAccess } from '../cloud.ts'

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
