import { expect, test } from 'vitest'
import { Organizations } from './organizations.ts'

test('an organization whose namespace a restore has made anew is the one before, where the operator says so', () => {
  const organizations = new Organizations([['uid-now', 'uid-before']])
  organizations.apply({ name: 'acme', uid: 'uid-now', ownerEmails: [] })
  organizations.apply({ name: 'other', uid: 'uid-other', ownerEmails: [] })
  expect(organizations.get('acme')?.uid).toBe('uid-before')
  expect(organizations.get('other')?.uid).toBe('uid-other')
  // Made again under its name once more, it is another one.
  organizations.apply({ name: 'acme', uid: 'uid-later', ownerEmails: [] })
  expect(organizations.get('acme')?.uid).toBe('uid-later')
})
