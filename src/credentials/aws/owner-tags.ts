/**
 * Tags that say whose a parameter is. Only what carries this installation and the UID of the organization may be removed or
 * written over: an organization that was made again under its name, or another Davit, has parameters of its own.
 */
import { GROUP } from '../../apis/meta.ts'
import { deriveKey, keyedHash } from '../../lib/key-hash.ts'

export type Tags = Readonly<Record<string, string>>

/** Who owns: what a listing is filtered by, and what decides. */
export type Owner = { installation: string; organizationUid: string }

const INSTALLATION_TAG = `${GROUP}/installation`
export const ORGANIZATION_UID_TAG = `${GROUP}/organization-uid`
export const ORGANIZATION_TAG = `${GROUP}/organization`
const CREDENTIAL_TAG = `${GROUP}/credential`

/** Id of this installation; it says nothing of the key. */
export function installationId(installationKey: Uint8Array): string {
  return keyedHash(deriveKey('installation-id', installationKey), [])
}

/** @param credential name of the resource; absent for the parameter that is only tried */
export function ownerTags(
  owner: Owner & { organization: string; credential?: string },
): Readonly<Record<string, string>> {
  return {
    ...ownerFilter(owner),
    [ORGANIZATION_TAG]: owner.organization,
    ...(owner.credential === undefined ? {} : { [CREDENTIAL_TAG]: owner.credential }),
  }
}

/** The tags that every parameter of the organization has. */
export function ownerFilter({ installation, organizationUid }: Owner): Tags {
  return { [INSTALLATION_TAG]: installation, [ORGANIZATION_UID_TAG]: organizationUid }
}

export function isOwnedBy(tags: Tags, owner: Owner): boolean {
  return Object.entries(ownerFilter(owner)).every(([key, value]) => value !== '' && tags[key] === value)
}
