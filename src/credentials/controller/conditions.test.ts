import { describe, expect, test } from 'vitest'
import { ABSENT_UNLESS_TRUE } from '../../../test/support/conditions.ts'
import {
  CREDENTIAL_CONDITIONS,
  CREDENTIAL_DRIFTS,
  CREDENTIAL_STALLS,
  CREDENTIAL_WAITS,
} from '../../apis/registry-credential.ts'
import { type CredentialView, credentialFindings } from './conditions.ts'
import type { CredentialAction, ListingFacts, ParameterDrift } from './plan.ts'

const PARAMETER = {
  name: '/davit/acme/rc_ghcr',
  version: 3,
  region: 'eu-west-1',
  account: '123456789012',
  roleArn: 'arn:aws:iam::123456789012:role/davit',
}
const NOTHING: CredentialAction = { step: 'nothing', reason: 'stored' }
const IN_SYNC: ListingFacts = { state: 'recorded', drift: { kind: 'none' } }
const SECRET_MISSING: CredentialAction = {
  step: 'wait',
  reason: 'SecretMissing',
  message: 'It is not there.',
}

const NOT_CHECKED = { status: 'Unknown', reason: 'NotChecked', message: 'Nobody has asked.' } as const

function view(change: Partial<CredentialView>): CredentialView {
  return {
    type: 'token',
    step: NOTHING,
    stored: PARAMETER,
    listing: IN_SYNC,
    verified: NOT_CHECKED,
    ...change,
  }
}

/** `True Stored` and the like, by type. */
function shown(one: CredentialView): Record<string, string> {
  const findings = credentialFindings(one).map(({ type, status, reason }) => [type, `${status} ${reason}`])
  return { ...ABSENT_UNLESS_TRUE, ...Object.fromEntries(findings) }
}

describe('the conditions of a credential', () => {
  test('that is stored', () => {
    expect(shown(view({}))).toEqual({
      Ready: 'True Stored',
      Reconciling: 'absent',
      Stalled: 'absent',
      Stored: 'True Stored',
      Verified: 'Unknown NotChecked',
      Drifted: 'False InSync',
    })
    expect(credentialFindings(view({}))[0]?.message).toBe(
      'Version 3 of the parameter /davit/acme/rc_ghcr is stored in account 123456789012, region eu-west-1.',
    )
  })

  test('of the type ecr say nothing of a parameter', () => {
    expect(shown(view({ type: 'ecr', stored: undefined, listing: { state: 'unknown' } }))).toEqual({
      Ready: 'True Accepted',
      Reconciling: 'absent',
      Stalled: 'absent',
      Verified: 'Unknown NotChecked',
    })
  })

  test('that waits for its Secret', () => {
    expect(shown(view({ step: SECRET_MISSING, stored: undefined, listing: { state: 'unknown' } }))).toEqual({
      Ready: 'False SecretMissing',
      Reconciling: 'True SecretMissing',
      Stalled: 'absent',
      Stored: 'False SecretMissing',
      Verified: 'Unknown NotChecked',
      Drifted: 'Unknown NotChecked',
    })
  })

  test('that is being stored', () => {
    const step: CredentialAction = { step: 'add-finalizer', reason: '' }
    expect(shown(view({ step, stored: undefined }))).toMatchObject({
      Ready: 'False Storing',
      Reconciling: 'True Storing',
      Stored: 'False Storing',
    })
  })

  test('whose new value is refused: the one before goes on, and somebody has to act', () => {
    const step: CredentialAction = { step: 'refuse', reason: 'InvalidSecret', message: 'Its value is empty.' }
    expect(shown(view({ step }))).toMatchObject({
      Ready: 'True Stored',
      Stored: 'True Stored',
      Stalled: 'True InvalidSecret',
    })
  })

  test('that has left its account goes on saying so while it waits for another one', () => {
    const step: CredentialAction = { step: 'wait', reason: 'SettingsRequired', message: 'There are none.' }
    expect(shown(view({ step, stored: undefined, moved: true }))).toMatchObject({
      Ready: 'False SettingsRequired',
      Reconciling: 'True SettingsRequired',
      Stored: 'False AccountChanged',
    })
  })

  test('of which a new value is handed over: the one before can be used, and is not what is waited for', () => {
    const given = view({ pending: true })
    const put: CredentialAction = { step: 'look', at: PARAMETER, reason: '' }
    const later: CredentialAction = { step: 'wait', reason: 'CloudUnavailable', message: 'Later.' }
    const no: CredentialAction = { step: 'refuse', reason: 'AccessDenied', message: 'No.' }
    expect(
      [put, later, no].map((step) => {
        const { Ready, Stored } = shown({ ...given, step })
        return [Ready, Stored]
      }),
    ).toEqual([
      ['True Stored', 'False Storing'],
      ['True Stored', 'False CloudUnavailable'],
      ['True Stored', 'False AccessDenied'],
    ])
  })

  test.each(['NotAnOrganization', 'InvalidRegistry', 'InvalidUsername'] as const)(
    'that is stored and cannot be used: %s',
    (reason) => {
      const step: CredentialAction = { step: 'refuse', reason, message: 'No.' }
      expect(shown(view({ step }))).toMatchObject({
        Ready: `False ${reason}`,
        Stalled: `True ${reason}`,
        Stored: 'True Stored',
      })
    },
  )

  test.each(['ParameterMissing', 'ParameterReplaced', 'AccountChanged'] as const)(
    'that is lost: %s',
    (reason) => {
      const step: CredentialAction = { step: 'refuse', reason, message: 'No.' }
      expect(shown(view({ step }))).toMatchObject({
        Ready: `False ${reason}`,
        Stalled: `True ${reason}`,
        Stored: `False ${reason}`,
      })
    },
  )

  test.each([
    {
      drift: { kind: 'changed', by: 'mallory', version: 4 },
      want: 'ChangedOutsideDavit',
      words: 'mallory wrote version 4',
    },
    {
      drift: { kind: 'replaced', by: 'mallory', version: 1, type: 'String' },
      want: 'ParameterReplaced',
      words: 'mallory recreated the parameter',
    },
    { drift: { kind: 'key', by: 'mallory', key: 'alias/x' }, want: 'KeyChanged', words: 'alias/x' },
    { drift: { kind: 'missing' }, want: 'ParameterMissing', words: '/davit/acme/rc_ghcr' },
  ] as const)('of which a listing shows drift: $want', ({ drift, want, words }) => {
    const finding = credentialFindings(view({ listing: { state: 'recorded', drift } })).at(-1)
    expect(finding).toMatchObject({ type: 'Drifted', status: 'True', reason: want })
    expect(finding?.message).toContain(words)
    expect(CREDENTIAL_DRIFTS).toContain(want)
  })

  test('do not say that it is in sync where the listing is stale, and keep what somebody changed', () => {
    const at = Date.parse('2026-01-31T12:00:00.000Z')
    const of = (drift: ParameterDrift) =>
      credentialFindings(view({ listing: { state: 'recorded', drift, staleSince: at } })).at(-1)
    const unknown = of({ kind: 'none' })
    expect(unknown).toMatchObject({ type: 'Drifted', status: 'Unknown', reason: 'ListingStale' })
    expect(unknown?.message).toContain('2026-01-31T12:00:00.000Z')
    expect(of({ kind: 'missing' })).toMatchObject({ status: 'True', reason: 'ParameterMissing' })
  })

  test('warn where the credential works, and only there', () => {
    const warning = 'Tokens end after 12 hours.'
    expect(credentialFindings(view({ warning }))[0]?.message).toContain(warning)
    const missing = view({ warning, step: SECRET_MISSING, stored: undefined })
    expect(credentialFindings(missing)[0]?.message).not.toContain(warning)
  })
})

describe('in every situation', () => {
  const steps: CredentialAction[] = [
    NOTHING,
    { step: 'list', reason: '' },
    ...CREDENTIAL_STALLS.map((reason) => ({ step: 'refuse', reason, message: 'No.' }) as const),
    ...CREDENTIAL_WAITS.map((reason) => ({ step: 'wait', reason, message: 'Later.' }) as const),
  ]
  const rows = steps.flatMap((step) =>
    (['token', 'ecr'] as const).flatMap((type) =>
      [PARAMETER, undefined].map((stored) => view({ type, step, stored })),
    ),
  )

  test('each condition is there once, and Ready and Stored never contradict each other', () => {
    for (const row of rows) {
      const types = credentialFindings(row).map(({ type }) => type)
      expect(new Set(types).size).toBe(types.length)
      for (const type of types) expect(CREDENTIAL_CONDITIONS).toContain(type)
      const { Ready, Stored, Stalled, Reconciling } = shown(row)
      if (Ready?.startsWith('True')) expect(Stored ?? 'True').toMatch(/^True/)
      expect(Stalled?.startsWith('True') && Reconciling?.startsWith('True')).toBe(false)
      if (row.step.step === 'nothing' && row.type === 'token' && row.stored) expect(Ready).toBe('True Stored')
    }
  })
})
