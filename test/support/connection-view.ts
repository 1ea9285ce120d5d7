/** The results of checks of an account, for tests of the conditions that follow from them. */
import {
  assessConnection,
  type ConnectionView,
  type ProbeResults,
} from '../../src/credentials/accounts/plan.ts'
import { ABSENT_UNLESS_TRUE } from './conditions.ts'

export const ROLE = 'arn:aws:iam::123456789012:role/davit-secrets'
export const GOOD: ProbeResults = {
  identify: {
    value: {
      account: '123456789012',
      arn: 'arn:aws:sts::123456789012:assumed-role/davit-secrets/davit-acme',
    },
  },
  put: { value: true },
  readable: { value: { operations: [], code: 'AccessDeniedException' } },
  otherId: { value: { refused: true, code: 'AccessDenied' } },
}
export const DENIED = { remedy: 'permissions', code: 'AccessDenied', message: 'not authorized' } as const
export const BUSY = { remedy: 'retry', code: 'ThrottlingException', message: 'slow down' } as const
export const SPEC = { remedy: 'spec', code: 'RegionDisabledException', message: 'not activated' } as const

/** A healthy view, except for the change. */
export function view(change: Partial<ConnectionView> = {}): ConnectionView {
  return {
    roleArn: ROLE,
    externalId: 'davit-1',
    principal: 'arn:aws:iam::210987654321:role/davit',
    results: GOOD,
    requireWriteOnly: false,
    ...change,
  }
}

/** Status and reason by type. */
export function conditionsByType(one: ConnectionView): Record<string, string> {
  const { findings } = assessConnection(one)
  const entries = findings.map(({ type, status, reason }) => [type, `${status} ${reason}`])
  return { ...ABSENT_UNLESS_TRUE, ...Object.fromEntries(entries) }
}

export function message(one: ConnectionView, type: string): string {
  return assessConnection(one).findings.find((finding) => finding.type === type)?.message ?? ''
}
