/** As whom this installation of Davit meets the accounts of organizations: the same in every process of it. */
import { externalId } from '../aws/external-id.ts'
import { installationId, type Owner } from '../aws/owner-tags.ts'

export type AccountIdentity = {
  /** What every parameter is under, such as `/davit`. */
  prefix: string
  /** Of an organization, by the UID of its namespace. */
  externalIdOf(organizationUid: string): string
  ownerOf(organizationUid: string): Owner
}

/** @param installationKey the key of the installation @param prefix the operator's setting */
export function accountIdentity(installationKey: Uint8Array, prefix: string): AccountIdentity {
  const installation = installationId(installationKey)
  return {
    prefix,
    externalIdOf: (organizationUid) => externalId(installationKey, organizationUid),
    ownerOf: (organizationUid) => ({ installation, organizationUid }),
  }
}
