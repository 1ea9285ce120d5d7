import { describe, expect, test } from 'vitest'
import { A, locationOf, RETRY, world } from '../../../test/support/credential-world.ts'
import {
  type CredentialFacts,
  type FoundParameter,
  NO_RECONCILE_FACTS,
  nextAction,
  type Ownership,
} from './plan.ts'

const FOUND: FoundParameter = { version: 1, type: 'SecureString', by: 'davit', isOwnSession: true }

function facts(change: Partial<CredentialFacts>): CredentialFacts {
  const rest = world({ ownName: true, account: { state: 'ready', location: locationOf(A) } })
  return { ...rest.facts(), inputSecret: { state: 'none' }, ...change }
}

function found(change: Partial<FoundParameter> = {}, owner: Ownership = 'unknown'): CredentialFacts {
  return facts({
    listing: { state: 'unrecorded', found: { ...FOUND, ...change } },
    pass: { ...NO_RECONCILE_FACTS, owner },
  })
}

describe('what REST stored and did not record', () => {
  test('is waited for while its request may still be under way', () => {
    expect(nextAction(facts({ createdAt: 999_000 }))).toMatchObject({ step: 'wait', until: 1_029_000 })
  })

  test('is looked for in a listing, looked at, and adopted', () => {
    expect(nextAction(facts({}))).toMatchObject({ step: 'list' })
    expect(nextAction(found())).toMatchObject({ step: 'look' })
    expect(nextAction(found({}, 'ours'))).toMatchObject({ step: 'adopt', version: 1 })
  })

  test('is asked for where there is nothing', () => {
    const nothing = facts({ listing: { state: 'unrecorded' } })
    for (const one of [nothing, found({}, 'absent')])
      expect(nextAction(one)).toMatchObject({ step: 'refuse', reason: 'SecretRequired' })
  })

  test.each([
    { what: 'that is no secure string', one: found({ type: 'String' }), words: '(String, version 1' },
    {
      what: 'that somebody else wrote',
      one: found({ by: 'arn:of:mallory', isOwnSession: false }),
      words: 'last written by arn:of:mallory',
    },
    { what: 'without the tags of its organization', one: found({}, 'not-ours'), words: 'version 1' },
  ])('is not what is there $what, and that is said', ({ one, words }) => {
    expect(nextAction(one)).toMatchObject({
      step: 'refuse',
      reason: 'ParameterNotOwned',
      message: expect.stringContaining(words),
    })
  })

  test('is not taken over by a credential of a name that another one may have had', () => {
    expect(nextAction({ ...found(), generatedName: false })).toMatchObject({ reason: 'SecretRequired' })
  })

  test('is not taken where the fields of its request were not written', () => {
    const step = nextAction({ ...found({}, 'ours'), hasPendingFields: true })
    expect(step).toMatchObject({ step: 'refuse', reason: 'SecretRequired' })
  })

  test('waits where the cloud fails', () => {
    const pass = { ...NO_RECONCILE_FACTS, failure: RETRY }
    for (const one of [facts({ pass }), { ...found(), pass }])
      expect(nextAction(one)).toMatchObject({ step: 'wait', reason: 'CloudUnavailable' })
  })
})
