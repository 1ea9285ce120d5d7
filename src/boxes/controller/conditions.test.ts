import { describe, expect, test } from 'vitest'
import { ABSENT_UNLESS_TRUE } from '../../../test/support/conditions.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { type BakeStatus, bakeFailureCode } from '../../apis/bake.ts'
import { TEMPLATE_CONDITIONS } from '../../apis/box-template.ts'
import { type TemplateView, templateFindings } from './conditions.ts'
import { bakeFailure } from './outcome.ts'
import type { BakeProblem } from './service-credentials.ts'

const DONE: BakeStatus = {
  state: 'succeeded',
  number: 1,
  attempts: 1,
  services: [{ name: 'api', image: 'ghcr.io/acme/api:1' }],
}
const words = 'reading manifest: unauthorized: authentication required'
const FAILED: BakeStatus = {
  ...DONE,
  state: 'failed',
  failure: bakeFailure({ service: 'api', step: 'pull', code: 'wrong_credentials', message: words }),
}
const WAITS: BakeProblem = {
  service: 'api',
  code: 'credential_unknown',
  message: 'There is no rc_a.',
  waits: true,
}
const STAYS: BakeProblem = { code: 'host_mismatch', message: 'They do not match.', waits: false }

/** What is said of it is said whatever else there is. */
const CURRENT = { status: 'True', reason: 'UpToDate', message: 'It is.' } as const

function shown(view: Partial<TemplateView>): Record<string, string> {
  const findings = templateFindings({
    bake: undefined,
    problem: undefined,
    isDue: false,
    current: CURRENT,
    ...view,
  })
  const own = findings.filter(({ type }) => type !== 'Current')
  const entries = own.map(({ type, status, reason }) => [type, `${status} ${reason}`])
  return { ...ABSENT_UNLESS_TRUE, ...Object.fromEntries(entries) }
}

const IDLE = { Reconciling: 'absent', Stalled: 'absent' }

describe('the conditions of a template', () => {
  const rows: [given: string, view: Partial<TemplateView>, want: Record<string, string>][] = [
    [
      'before anything was begun',
      { isDue: true },
      { ...IDLE, Ready: 'False Baking', Succeeded: 'Unknown Baking', Reconciling: 'True Baking' },
    ],
    [
      'before its turn',
      { isDue: true, waitsFor: 'it is not its turn' },
      { ...IDLE, Ready: 'False Waiting', Succeeded: 'Unknown Baking', Reconciling: 'True Waiting' },
    ],
    [
      'whose bake is pending',
      { bake: { ...DONE, state: 'pending' } },
      { ...IDLE, Ready: 'False Baking', Succeeded: 'Unknown Baking', Reconciling: 'True Baking' },
    ],
    [
      'whose bake runs',
      { bake: { ...DONE, state: 'running' } },
      { ...IDLE, Ready: 'False Baking', Succeeded: 'Unknown Baking', Reconciling: 'True Baking' },
    ],
    ['that is baked', { bake: DONE }, { ...IDLE, Ready: 'True Baked', Succeeded: 'True Baked' }],
    [
      'that was baked, and has changed',
      { bake: DONE, isDue: true },
      { ...IDLE, Ready: 'False Baking', Succeeded: 'True Baked', Reconciling: 'True Baking' },
    ],
    [
      'whose bake failed',
      { bake: FAILED },
      {
        ...IDLE,
        Ready: 'False WrongCredentials',
        Succeeded: 'False WrongCredentials',
        Stalled: 'True WrongCredentials',
      },
    ],
    [
      'whose bake failed, and is tried again',
      { bake: { ...FAILED, nextAttemptAt: '2026-01-31T12:00:00.000Z' } },
      {
        ...IDLE,
        Ready: 'False WrongCredentials',
        Succeeded: 'False WrongCredentials',
        Reconciling: 'True Retrying',
      },
    ],
    [
      'that waits for a credential',
      {
        bake: { ...FAILED, failure: bakeFailure({ step: 'check', code: 'credential_unknown', message: '' }) },
        problem: WAITS,
        isDue: true,
      },
      {
        ...IDLE,
        Ready: 'False CredentialUnknown',
        Succeeded: 'False CredentialUnknown',
        Reconciling: 'True CredentialUnknown',
      },
    ],
    [
      'that was baked, and whose credential was deleted',
      { bake: DONE, problem: WAITS },
      {
        ...IDLE,
        Ready: 'False CredentialUnknown',
        Succeeded: 'True Baked',
        Reconciling: 'True CredentialUnknown',
      },
    ],
    [
      'that was baked, and whose credential is for another host now',
      { bake: DONE, problem: STAYS },
      { ...IDLE, Ready: 'False HostMismatch', Succeeded: 'True Baked', Stalled: 'True HostMismatch' },
    ],
  ]

  test.for(rows)('%s', ([, view, want]) => {
    expect(shown(view)).toEqual(want)
  })

  test.for([
    [undefined, 'A bake is about to start.'],
    [{ ...DONE, state: 'pending' }, "The bake's Pod is not running yet."],
    [{ ...DONE, state: 'running' }, 'The images are being pulled.'],
    [DONE, 'The image was pulled.'],
    [{ ...DONE, services: Array(3).fill(DONE.services?.[0]) }, 'The images for 3 services were pulled.'],
  ] as const satisfies [BakeStatus | undefined, string][])(
    'tell how far the bake is: %j',
    ([bake, message]) => {
      const findings = templateFindings({ bake, problem: undefined, isDue: false, current: CURRENT })
      expect(findings.find(({ type }) => type === 'Succeeded')).toMatchObject({ message })
    },
  )

  test('name the service, say what to do, and have the words of the tool', () => {
    const [ready] = templateFindings({
      bake: FAILED,
      problem: undefined,
      isDue: false,
      current: CURRENT,
    })
    expect(ready?.message).toMatch(/^Service api: The user name is wrong, or the secret is wrong/)
    expect(ready?.message).toContain(words)
  })
})

const view: fc.Arbitrary<TemplateView> = fc.record({
  bake: fc.oneof(
    fc.constantFrom(
      undefined,
      DONE,
      { ...DONE, state: 'running' as const },
      { ...DONE, state: 'pending' as const },
    ),
    fc
      .tuple(fc.constantFrom(...bakeFailureCode.options), fc.option(fc.constant('2026-01-31T12:00:00.000Z')))
      .map(
        ([code, next]): BakeStatus => ({
          ...FAILED,
          failure: bakeFailure({ step: 'pull', code, message: '' }),
          ...(next === null ? {} : { nextAttemptAt: next }),
        }),
      ),
  ),
  problem: fc.constantFrom(undefined, WAITS, STAYS),
  isDue: fc.boolean(),
  waitsFor: fc.constantFrom(undefined, 'it is not its turn'),
  current: fc.constant(CURRENT),
})

test('waiters always know where they are: at work, stalled, ready, and never two of them', () => {
  fc.assert(
    fc.property(view, (one) => {
      const findings = templateFindings(one)
      const types = new Set([...findings.map(({ type }) => type), ...Object.keys(ABSENT_UNLESS_TRUE)])
      expect([...types].sort()).toEqual([...TEMPLATE_CONDITIONS].sort())
      const where = findings.filter(({ type }) => type !== 'Succeeded' && type !== 'Current')
      const held = where.filter(({ status }) => status === 'True')
      expect(held).toHaveLength(1)
      for (const { reason, message } of findings) {
        expect(reason).toMatch(/^[A-Z][A-Za-z]+$/)
        expect(message).not.toBe('')
      }
    }),
  )
})
