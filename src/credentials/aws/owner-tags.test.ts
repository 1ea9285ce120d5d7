import { describe, expect, test } from 'vitest'
import { externalId } from './names.ts'
import { installationId, isOwnedBy, ownerFilter, ownerTags } from './parameter-tags.ts'

const KEY = new Uint8Array(32).fill(7)
const OTHER_KEY = new Uint8Array(32).fill(8)
const UID = '4ea74ba9-69e4-4cd5-b67c-f9fe9723e01a'
const OTHER_UID = '4ea74ba9-69e4-4cd5-b67c-f9fe9723e01b'
const OWNER = { installation: installationId(KEY), organizationUid: UID }

describe('a parameter', () => {
  const tags = ownerTags({ ...OWNER, organization: 'acme', credential: 'ghcr' })

  test('names installation, organization and credential', () => {
    expect(tags).toEqual({
      'davit.dev/installation': OWNER.installation,
      'davit.dev/organization-uid': UID,
      'davit.dev/organization': 'acme',
      'davit.dev/credential': 'ghcr',
    })
    expect(ownerTags({ ...OWNER, organization: 'acme' })).not.toHaveProperty('davit.dev/credential')
  })

  test('is owned by its installation and organization, whatever other tags it has', () => {
    expect(isOwnedBy({ ...tags, team: 'blue' }, OWNER)).toBe(true)
    expect(isOwnedBy(ownerFilter(OWNER), OWNER)).toBe(true)
  })

  test.each([
    ['no tags', {}],
    ['another installation', { ...tags, 'davit.dev/installation': installationId(OTHER_KEY) }],
    ['another organization of the same name', { ...tags, 'davit.dev/organization-uid': OTHER_UID }],
    ['half of them', { 'davit.dev/installation': OWNER.installation }],
  ])('is not owned with %s', (_, given) => {
    expect(isOwnedBy(given, OWNER)).toBe(false)
  })

  test('is owned by nobody whose UID is not known', () => {
    expect(isOwnedBy({ ...tags, 'davit.dev/organization-uid': '' }, { ...OWNER, organizationUid: '' })).toBe(
      false,
    )
  })
})

test('the id of an installation is not its key, and another one has another', () => {
  expect(installationId(KEY)).toMatch(/^[0-9a-hjkmnp-tv-z]{26}$/)
  expect(installationId(KEY)).not.toBe(installationId(OTHER_KEY))
})

test('an external id is the same again for an organization of an installation, and only for it', () => {
  expect(externalId(KEY, UID)).toMatch(/^davit-[0-9a-hjkmnp-tv-z]{32}$/)
  expect(externalId(KEY, UID)).toBe(externalId(KEY, UID))
  expect(new Set([externalId(KEY, UID), externalId(KEY, OTHER_UID), externalId(OTHER_KEY, UID)]).size).toBe(3)
})
