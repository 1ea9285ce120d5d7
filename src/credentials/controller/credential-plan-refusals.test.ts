import { describe, expect, test } from 'vitest'
import { SECRET, storedWorld, world } from '../../../test/support/credential-world.ts'
import { nextAction } from './plan.ts'

describe('drift', () => {
  test.each([
    { drift: { kind: 'none' }, want: { step: 'nothing' } },
    { drift: { kind: 'adopt', version: 4 }, want: { step: 'adopt', version: 4 } },
    { drift: { kind: 'changed', by: 'mallory', version: 4 }, want: { step: 'nothing' } },
    { drift: { kind: 'key', by: 'mallory', key: 'alias/x' }, want: { step: 'nothing' } },
    { drift: { kind: 'missing' }, want: { step: 'refuse', reason: 'ParameterMissing' } },
    {
      drift: { kind: 'replaced', by: 'mallory', version: 1, type: 'String' },
      want: { step: 'refuse', reason: 'ParameterReplaced' },
    },
  ] as const)('$drift.kind: $want.step', ({ drift, want }) => {
    const one = storedWorld({ listing: { state: 'recorded', drift } })
    expect(nextAction(one.facts())).toMatchObject(want)
  })
})

test('a newer version whose fields were not written is left, and the one before stays in use', () => {
  const listing = { state: 'recorded', drift: { kind: 'adopt', version: 4 } } as const
  const facts = { ...storedWorld({ listing }).facts(), hasPendingFields: true }
  expect(nextAction(facts)).toMatchObject({ step: 'nothing' })
})

describe('what is refused', () => {
  const problem = { reason: 'InvalidRegistry', message: 'must have no path' } as const

  test.each([
    {
      handover: { state: 'wrong-type', type: 'kubernetes.io/tls' },
      want: ['InvalidSecretType', 'kubernetes.io/tls'],
    },
    { handover: { state: 'wrong-type', type: '' }, want: ['InvalidSecretType', 'Opaque'] },
    { handover: { state: 'no-key' }, want: ['SecretKeyMissing', 'does not have the key `secret`'] },
    {
      handover: { state: 'problem', problem: 'must not be empty' },
      want: ['InvalidSecret', 'its value must not be empty'],
    },
  ] as const)('a Secret: $want.0', ({ handover, want: [reason, words] }) => {
    const step = nextAction({ ...world().facts(), inputSecret: handover })
    expect(step).toMatchObject({ step: 'refuse', reason, message: expect.stringContaining(words) })
  })

  test('a Secret that may not be read, unless the value is stored', () => {
    const handover = { state: 'forbidden' } as const
    expect(nextAction({ ...world().facts(), inputSecret: handover })).toMatchObject({
      step: 'refuse',
      reason: 'SecretForbidden',
      message: expect.stringContaining('davit-organization-secrets'),
    })
    expect(nextAction({ ...storedWorld().facts(), inputSecret: handover })).toMatchObject({ step: 'nothing' })
  })

  test('nothing of a credential that names no Secret and has its value', () => {
    const handover = { state: 'none' } as const
    expect(nextAction({ ...storedWorld().facts(), inputSecret: handover })).toMatchObject({ step: 'nothing' })
    expect(nextAction({ ...world().facts(), inputSecret: handover })).toMatchObject({
      reason: 'SecretRequired',
    })
  })

  test('a spec, before anything is done', () => {
    const step = nextAction({ ...world({ hasFinalizer: false, secret: SECRET }).facts(), problem })
    expect(step).toEqual({ step: 'refuse', ...problem })
  })

  test('nothing of ecr but its spec: it stores nothing and needs no account', () => {
    const facts = {
      ...world({ hasFinalizer: false, account: { state: 'missing' } }).facts(),
      type: 'ecr' as const,
    }
    expect(nextAction(facts)).toMatchObject({ step: 'nothing' })
    expect(nextAction({ ...facts, problem })).toMatchObject({ step: 'refuse' })
    expect(nextAction({ ...facts, deletedAt: 1 })).toMatchObject({ step: 'nothing' })
  })

  test('a Secret that is not there is waited for', () => {
    expect(world().run()).toMatchObject({ step: 'wait', reason: 'SecretMissing' })
  })
})
