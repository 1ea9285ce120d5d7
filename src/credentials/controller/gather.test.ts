import { describe, expect, test } from 'vitest'
import { type RegistryCredential, registryCredential } from '../../apis/registry-credential.ts'
import type { ListedParameter } from '../cloud.ts'
import { type CredentialContext, listingFacts } from './gather.ts'

const MADE = Date.UTC(2026, 0, 31, 12)
const ACCOUNT = '111111111111'
const NAME = '/davit/acme/rc_ghcr'
const PLACE = {
  name: NAME,
  region: 'eu-west-1',
  account: ACCOUNT,
  roleArn: `arn:aws:iam::${ACCOUNT}:role/davit`,
}
const LISTED: ListedParameter = {
  name: NAME,
  version: 1,
  type: 'SecureString',
  modifiedAt: MADE,
  modifiedBy: `arn:aws:sts::${ACCOUNT}:assumed-role/davit/davit-acme`,
}
const CREDENTIAL: RegistryCredential = registryCredential.parse({
  metadata: {
    namespace: 'acme',
    name: 'ghcr',
    uid: 'u-1',
    resourceVersion: '1',
    creationTimestamp: new Date(MADE).toISOString(),
  },
  spec: { type: 'token', label: 'ghcr', registry: 'ghcr.io', username: 'bot' },
})

function facts(afterMs: number, listed?: ListedParameter) {
  const parameters = new Map(listed ? [[NAME, listed]] : [])
  const listings = { lastListing: () => ({ at: MADE + afterMs, ...PLACE, parameters }) }
  return listingFacts({ listings } as unknown as CredentialContext, CREDENTIAL, {
    state: 'ready',
    location: PLACE,
  })
}

describe('a listing', () => {
  test('from soon after a credential does not say that its parameter is not there', () => {
    expect(facts(-5000)).toEqual({ state: 'unknown' })
    expect(facts(5000)).toEqual({ state: 'unknown' })
    expect(facts(11_000)).toEqual({ state: 'unrecorded', found: undefined })
  })

  test('says what is there, and whether the session of the organization wrote it', () => {
    const found = { version: 1, type: 'SecureString', by: LISTED.modifiedBy, isOwnSession: true }
    expect(facts(1000, LISTED)).toEqual({ state: 'unrecorded', found })
    const other = `${LISTED.modifiedBy}-2`
    expect(facts(1000, { ...LISTED, type: 'String', modifiedBy: other })).toEqual({
      state: 'unrecorded',
      found: { version: 1, type: 'String', by: other, isOwnSession: false },
    })
  })
})
