import { describe, expect, test } from 'vitest'
import {
  BUSY,
  conditionsByType,
  DENIED,
  GOOD,
  message,
  ROLE,
  SPEC,
  view,
} from '../../../test/support/connection-view.ts'
import { SETTINGS_CONDITIONS } from '../../apis/secrets-settings.ts'
import { assessConnection } from './plan.ts'

describe('an account', () => {
  test('that passes everything is ready', () => {
    expect(conditionsByType(view())).toEqual({
      Ready: 'True Connected',
      Reconciling: 'absent',
      Stalled: 'absent',
      Reachable: 'True Connected',
      WriteOnly: 'True ReadsDenied',
      ExternalIdEnforced: 'True OtherExternalIdRejected',
    })
    expect(assessConnection(view())).toMatchObject({ ready: true, connected: true })
    expect(assessConnection(view()).warning).toBeUndefined()
  })

  test('proves with the words of AWS that it cannot be read', () => {
    expect(message(view(), 'WriteOnly')).toContain('(AccessDeniedException)')
  })

  test.each([
    { tried: 'tags', action: 'ssm:ListTagsForResource', statement: 'WriteSecrets' },
    { tried: 'list', action: 'ssm:DescribeParameters', statement: 'ListSecrets' },
    { tried: 'remove', action: 'ssm:DeleteParameter', statement: 'WriteSecrets' },
  ] as const)(
    'whose role lacks $action is not ready, and says what to paste',
    ({ tried, action, statement }) => {
      const one = view({ results: { ...GOOD, [tried]: { failure: DENIED } } })
      expect(conditionsByType(one)).toMatchObject({
        Ready: 'False PermissionMissing',
        Stalled: 'True PermissionMissing',
      })
      expect(message(one, 'Ready')).toContain(
        `AccessDenied: not authorized. The role can write, but ${action} is denied`,
      )
      expect(message(one, 'Ready')).toContain(`status.writerPolicy, whose statement ${statement}`)
      // A moment's failure says nothing of rights.
      const brief = view({ results: { ...GOOD, [tried]: { failure: BUSY } } })
      expect(conditionsByType(brief)).toMatchObject({ Ready: 'True Connected', Reachable: 'True Connected' })
    },
  )

  test('without a role asks for one', () => {
    const one = view({ roleArn: undefined, results: undefined })
    expect(conditionsByType(one)).toMatchObject({ Ready: 'False RoleRequired', Stalled: 'True RoleRequired' })
    expect(message(one, 'Ready')).toMatch(/^Create a role with status\.trustPolicy/)
    expect(assessConnection(one).connected).toBe(false)
  })

  test('without a role says who is to be asked where Davit has no identity that a trust policy could name', () => {
    const one = view({ roleArn: undefined, results: undefined, principal: undefined })
    expect(message(one, 'Ready')).toMatch(/^Davit could not determine its AWS identity.*aws\.identity/)
    expect(message(one, 'Stalled')).toContain('Create a role with status.trustPolicy')
  })

  test('that nobody has tried yet is under way', () => {
    expect(conditionsByType(view({ results: undefined }))).toEqual({
      Ready: 'False Connecting',
      Reconciling: 'True Connecting',
      Stalled: 'absent',
      Reachable: 'Unknown Connecting',
      WriteOnly: 'Unknown NotChecked',
      ExternalIdEnforced: 'Unknown NotChecked',
    })
  })

  test('whose role refuses Davit names what its trust policy lacks', () => {
    const one = view({ results: { identify: { failure: DENIED } } })
    expect(conditionsByType(one)).toEqual({
      Ready: 'False RoleRefused',
      Reconciling: 'absent',
      Stalled: 'True RoleRefused',
      Reachable: 'False RoleRefused',
      WriteOnly: 'Unknown NotChecked',
      ExternalIdEnforced: 'Unknown NotChecked',
    })
    for (const words of ['AccessDenied: not authorized', ROLE, '210987654321', 'davit-1', 'sts:TagSession'])
      expect(message(one, 'Reachable')).toContain(words)
  })

  test('whose role does not fit the spec is refused with that', () => {
    const one = view({ results: { identify: { failure: SPEC } } })
    expect(conditionsByType(one)).toMatchObject({ Reachable: 'False SpecRefused' })
    expect(message(one, 'Reachable')).toBe('RegionDisabledException: not activated. Correct the spec.')
  })

  test('whose role refuses Davit, which does not know who it is, says so', () => {
    const one = view({ results: { identify: { failure: DENIED } }, principal: undefined })
    expect(message(one, 'Reachable')).toContain("must allow Davit's identity to call sts:AssumeRole")
  })

  test('that was not tried to the end is under way', () => {
    expect(conditionsByType(view({ results: { identify: GOOD.identify } }))).toMatchObject({
      Ready: 'False Connecting',
      Reachable: 'Unknown Connecting',
    })
  })

  test('where listing does not fit the spec is refused with what was tried', () => {
    const one = view({ results: { ...GOOD, list: { failure: SPEC } } })
    expect(conditionsByType(one)).toMatchObject({ Reachable: 'False SpecRefused' })
    expect(message(one, 'Reachable')).toContain('The failed call was ssm:DescribeParameters.')
  })

  test.each([
    { what: 'no right to write', put: DENIED, want: 'WriteRefused', words: 'WriteSecrets' },
    {
      what: 'a key that cannot be used',
      put: { remedy: 'spec', code: 'InvalidKeyId', message: 'disabled' } as const,
      want: 'KeyUnusable',
      words: 'InvalidKeyId: disabled',
    },
    {
      what: 'a spec that AWS does not take',
      put: SPEC,
      want: 'SpecRefused',
      words: 'RegionDisabledException',
    },
  ])('with $what is refused: $want', ({ put, want, words }) => {
    const one = view({ results: { identify: GOOD.identify, put: { failure: put } } })
    expect(conditionsByType(one)).toMatchObject({
      Ready: `False ${want}`,
      Reachable: `False ${want}`,
      Stalled: `True ${want}`,
    })
    expect(message(one, 'Reachable')).toContain(words)
  })

  test('of another session is refused', () => {
    const identify = { value: { account: '999999999999', arn: 'arn:aws:sts::999999999999:assumed-role/a/b' } }
    expect(conditionsByType(view({ results: { ...GOOD, identify } }))).toMatchObject({
      Reachable: 'False WrongAccount',
    })
  })

  test('whose role takes any external id is refused', () => {
    const one = view({ results: { ...GOOD, otherId: { value: { refused: false } } } })
    expect(conditionsByType(one)).toMatchObject({
      Ready: 'False OtherExternalIdAccepted',
      Stalled: 'True OtherExternalIdAccepted',
      ExternalIdEnforced: 'False OtherExternalIdAccepted',
    })
    expect(message(one, 'ExternalIdEnforced')).toContain('StringEquals sts:ExternalId davit-1')
  })

  test.each([
    [
      'takes any external id',
      { value: { refused: false } },
      'False OtherExternalIdAccepted',
      'OtherExternalIdAccepted',
    ],
    ['cannot be checked now', { failure: BUSY }, 'Unknown CloudUnavailable', 'CloudUnavailable'],
    ['cannot be checked', { failure: SPEC }, 'Unknown CheckFailed', 'Connecting'],
  ] as const)('whose role %s is not written to, and says why', (_, otherId, enforced, ready) => {
    const one = view({ results: { identify: GOOD.identify, otherId } })
    expect(conditionsByType(one)).toMatchObject({
      Ready: `False ${ready}`,
      WriteOnly: 'Unknown NotChecked',
      ExternalIdEnforced: enforced,
    })
    expect(assessConnection(one)).toMatchObject({ ready: false, connected: false })
    expect(message(one, 'Reachable')).not.toContain('testing')
  })

  test('whose role takes any external id since the last check stays connected, and gets no secrets', () => {
    const before = assessConnection(view()).findings
    const one = view({ results: { identify: GOOD.identify, otherId: { value: { refused: false } } }, before })
    expect(conditionsByType(one)).toMatchObject({
      Ready: 'False OtherExternalIdAccepted',
      Reachable: 'True Connected',
      ExternalIdEnforced: 'False OtherExternalIdAccepted',
    })
    expect(assessConnection(one)).toMatchObject({ ready: false, connected: true })
  })

  describe('whose role can read', () => {
    const results = {
      ...GOOD,
      readable: { value: { operations: ['ssm:GetParameter', 'ssm:GetParameterHistory'] } },
    }

    test('is taken with a warning that says how to stop it', () => {
      const one = view({ results })
      expect(conditionsByType(one)).toMatchObject({ Ready: 'True Connected', WriteOnly: 'False CanRead' })
      expect(message(one, 'Ready')).toContain(
        'Warning: The role can read the secrets (with ssm:GetParameter, ssm:GetParameterHistory).',
      )
      expect(assessConnection(one).warning).toMatchObject({
        reason: 'CanRead',
        message: expect.stringContaining('NeverReadSecrets'),
      })
    })

    test('is refused where the operator wants it so', () => {
      const one = view({ results, requireWriteOnly: true })
      expect(conditionsByType(one)).toMatchObject({ Ready: 'False CanRead', Stalled: 'True CanRead' })
      expect(assessConnection(one)).toMatchObject({ ready: false, connected: true })
    })
  })

  test('of which it is not known whether it can be read is ready, unless that is wanted', () => {
    const results = { ...GOOD, readable: { failure: DENIED } }
    expect(conditionsByType(view({ results }))).toMatchObject({
      Ready: 'True Connected',
      WriteOnly: 'Unknown CheckFailed',
    })
    expect(conditionsByType(view({ results, requireWriteOnly: true }))).toMatchObject({
      Ready: 'False Connecting',
    })
  })

  test('in a namespace that is no organization is not spoken of', () => {
    const problem = { reason: 'NotAnOrganization', message: 'No label.' } as const
    expect(conditionsByType(view({ problem, results: undefined }))).toMatchObject({
      Ready: 'False NotAnOrganization',
      Stalled: 'True NotAnOrganization',
      Reachable: 'Unknown NotChecked',
    })
  })
})

test('every condition is there once, whatever was found', () => {
  for (const results of [
    undefined,
    GOOD,
    { identify: { failure: DENIED } },
    { ...GOOD, put: { failure: SPEC } },
  ])
    expect(Object.keys(conditionsByType(view({ results }))).sort()).toEqual([...SETTINGS_CONDITIONS].sort())
})
