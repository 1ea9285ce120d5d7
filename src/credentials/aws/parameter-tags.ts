/** The tags of parameters, which say whose a parameter is. Pure. */
import { GROUP } from '../../apis/meta.ts'
import { deriveKey, keyedHash } from '../../lib/text.ts'
import type { OwnerTags } from '../cloud.ts'

/**
 * What decides whether Davit may remove or overwrite a parameter: a recreated organization, or another Davit, has parameters of its
 * own.
 */
export type Owner = { installation: string; organizationUid: string }

const INSTALLATION_TAG = `${GROUP}/installation`
export const ORGANIZATION_UID_TAG = `${GROUP}/organization-uid`
export const ORGANIZATION_TAG = `${GROUP}/organization`
const CREDENTIAL_TAG = `${GROUP}/credential`

/** Id of this installation; it reveals nothing about the key. */
export function installationId(installationKey: Uint8Array): string {
  return keyedHash(deriveKey('installation-id', installationKey), [])
}

export function ownerTags(owner: Owner & { organization: string; credential?: string }): OwnerTags {
  return {
    ...ownerFilter(owner),
    [ORGANIZATION_TAG]: owner.organization,
    ...(owner.credential === undefined ? {} : { [CREDENTIAL_TAG]: owner.credential }),
  }
}

export function ownerFilter({ installation, organizationUid }: Owner): OwnerTags {
  return { [INSTALLATION_TAG]: installation, [ORGANIZATION_UID_TAG]: organizationUid }
}

export function isOwnedBy(tags: OwnerTags, owner: Owner): boolean {
  return Object.entries(ownerFilter(owner)).every(([key, value]) => value !== '' && tags[key] === value)
}
