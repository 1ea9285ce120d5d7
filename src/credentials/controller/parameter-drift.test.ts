import { describe, expect, test } from 'vitest'
import { type DriftView, deletionMessage, failedDeletionReason, parameterDrift } from './plan.ts'

const OURS = 'arn:aws:sts::123456789012:assumed-role/davit/davit-acme'
const OLD_ROLE = 'arn:aws:sts::123456789012:assumed-role/davit-old/davit-acme'
const MALLORY = 'arn:aws:iam::123456789012:user/mallory'
const STORED = {
  name: '/davit/acme/rc_ghcr',
  version: 3,
  region: 'eu-west-1',
  account: '123456789012',
  roleArn: 'arn:aws:iam::123456789012:role/davit',
}
const LISTED = {
  name: STORED.name,
  version: 3,
  type: 'SecureString',
  kmsKeyId: 'alias/aws/ssm',
  modifiedBy: OURS,
}

function view(change: Partial<DriftView>): DriftView {
  return {
    stored: STORED,
    listed: LISTED,
    storedAt: 0,
    listedAt: 900_000,
    ownSessions: [OURS, OLD_ROLE],
    ...change,
  }
}

describe('a parameter', () => {
  test.each([
    { what: 'as it was written', given: view({}), want: { kind: 'none' } },
    {
      what: 'written with the role of before',
      given: view({ listed: { ...LISTED, modifiedBy: OLD_ROLE } }),
      want: { kind: 'none' },
    },
    { what: 'that is not listed', given: view({ listed: undefined }), want: { kind: 'missing' } },
    {
      what: 'that is not listed yet',
      given: view({ listed: undefined, storedAt: 890_000 }),
      want: { kind: 'none' },
    },
    {
      what: 'of a version that was not recorded',
      given: view({ listed: { ...LISTED, version: 4 } }),
      want: { kind: 'adopt', version: 4 },
    },
    {
      what: 'whose last version is not listed yet',
      given: view({ listed: { ...LISTED, version: 2 } }),
      want: { kind: 'none' },
    },
    {
      what: 'that somebody else wrote over',
      given: view({ listed: { ...LISTED, version: 4, modifiedBy: MALLORY } }),
      want: { kind: 'changed', by: MALLORY, version: 4 },
    },
    {
      what: 'that somebody else made anew',
      given: view({ listed: { ...LISTED, version: 1, modifiedBy: MALLORY } }),
      want: { kind: 'replaced', by: MALLORY, version: 1, type: 'SecureString' },
    },
    {
      what: 'that somebody else made anew, up to our version',
      given: view({ listed: { ...LISTED, modifiedBy: MALLORY } }),
      want: { kind: 'replaced', by: MALLORY, version: 3, type: 'SecureString' },
    },
    {
      what: 'that is no secure string any more',
      given: view({ listed: { ...LISTED, version: 9, type: 'String', modifiedBy: MALLORY } }),
      want: { kind: 'replaced', by: MALLORY, version: 9, type: 'String' },
    },
    {
      what: 'with another key',
      given: view({ listed: { ...LISTED, kmsKeyId: 'alias/other' } }),
      want: { kind: 'key', by: OURS, key: 'alias/other' },
    },
    {
      what: 'with the session of another organization',
      given: view({ listed: { ...LISTED, version: 4, modifiedBy: `${OURS}-2` } }),
      want: { kind: 'changed', by: `${OURS}-2`, version: 4 },
    },
  ])('$what is $want.kind', ({ given, want }) => {
    expect(parameterDrift(given)).toEqual(want)
  })
})

describe('the outcome of a deletion', () => {
  const orphan = {
    ...STORED,
    reason: failedDeletionReason({ remedy: 'permissions', code: 'AccessDenied', message: 'no' }),
  }

  test('names what stays, where and why', () => {
    expect(deletionMessage(STORED.name, { outcome: 'orphaned', failedDeletion: orphan })).toBe(
      'Davit failed to delete the parameter /davit/acme/rc_ghcr in account 123456789012, region eu-west-1: AccessDenied: no. ' +
        'Davit added the parameter to the list of orphaned parameters and will keep trying to delete it. An account administrator can also delete it.',
    )
    expect(failedDeletionReason(undefined)).toContain('tags')
  })

  test('says whether it was there', () => {
    expect(deletionMessage(STORED.name, { outcome: 'deleted' })).toBe(
      'Davit deleted the parameter /davit/acme/rc_ghcr.',
    )
    expect(deletionMessage(STORED.name, { outcome: 'not_found' })).toBe(
      'The parameter /davit/acme/rc_ghcr had already been deleted.',
    )
  })
})
