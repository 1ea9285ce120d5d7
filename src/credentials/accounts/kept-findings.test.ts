import { describe, expect, test } from 'vitest'
import { BUSY, conditionsByType, DENIED, GOOD, message, view } from '../../../test/support/connection-view.ts'
import { assessConnection, type ProbeResults } from './plan.ts'

describe('a failure that passes', () => {
  const before = assessConnection(view()).findings

  test.each([
    ['identify', { identify: { failure: BUSY } }],
    ['put', { ...GOOD, put: { failure: BUSY } }],
    ['readable', { ...GOOD, readable: { failure: BUSY } }],
    ['otherId', { ...GOOD, otherId: { failure: BUSY } }],
    ['otherId, before anything is written', { identify: GOOD.identify, otherId: { failure: BUSY } }],
  ] as [string, ProbeResults][])('of %s does not undo what is known', (_, results) => {
    const one = view({ results, before })
    expect(conditionsByType(one)).toEqual({
      ...conditionsByType(view()),
      Reconciling: 'True CloudUnavailable',
    })
    expect(message(one, 'Reconciling')).toContain('ThrottlingException: slow down')
    expect(assessConnection(one).ready).toBe(true)
  })

  test('leaves unknown what was not known', () => {
    expect(conditionsByType(view({ results: { identify: { failure: BUSY } } }))).toMatchObject({
      Ready: 'False CloudUnavailable',
      Reconciling: 'True CloudUnavailable',
      Reachable: 'Unknown CloudUnavailable',
    })
  })

  test('does not hide what was found out since', () => {
    const results = { identify: { failure: DENIED } }
    expect(conditionsByType(view({ results, before }))).toMatchObject({
      Ready: 'False RoleRefused',
      WriteOnly: 'Unknown NotChecked',
    })
  })

  test('is found out where a check says neither yes nor no, and not for a moment', () => {
    const results = { ...GOOD, readable: { failure: DENIED } }
    expect(conditionsByType(view({ results, before }))).toMatchObject({ WriteOnly: 'Unknown CheckFailed' })
    expect(message(view({ results, before }), 'WriteOnly')).toBe(
      'AccessDenied: not authorized. Davit could not complete the check.',
    )
  })

  test('is still told of by a look without a try', () => {
    const failed = assessConnection(view({ results: { identify: { failure: BUSY } } })).findings
    expect(conditionsByType(view({ results: undefined, before: failed }))).toMatchObject({
      Ready: 'False CloudUnavailable',
      Reachable: 'Unknown CloudUnavailable',
      WriteOnly: 'Unknown NotChecked',
    })
    const tried = view({ results: { ...GOOD, otherId: { failure: BUSY } }, before: failed })
    expect(conditionsByType(tried)).toMatchObject({ Reachable: 'True Connected' })
  })

  test('of a look without a try before the first try says that it is under way', () => {
    const looked = assessConnection(view({ results: undefined })).findings
    expect(conditionsByType(view({ results: undefined, before: looked }))).toMatchObject({
      Reachable: 'Unknown Connecting',
      ExternalIdEnforced: 'Unknown NotChecked',
    })
  })

  test('is not held where the namespace is no organization any more', () => {
    const problem = { reason: 'NotAnOrganization', message: 'No label.' } as const
    expect(conditionsByType(view({ problem, results: undefined, before }))).toMatchObject({
      Reachable: 'Unknown NotChecked',
      WriteOnly: 'Unknown NotChecked',
    })
  })

  test('keeps the verdict of before after a restart', () => {
    expect(assessConnection(view({ results: undefined, before })).ready).toBe(true)
  })
})
