import type { Condition } from '../../src/apis/meta.ts'

type WithConditions = { status?: { conditions?: readonly Condition[] | undefined } | undefined }

/** For conditions by type: these two exist only while they are true. */
export const ABSENT_UNLESS_TRUE = { Reconciling: 'absent', Stalled: 'absent' } as const

export function conditionOf(object: WithConditions, type: string): Condition | undefined {
  return object.status?.conditions?.find((condition) => condition.type === type)
}

/** Whether the condition `type` has this status and, if given, this reason. */
export function hasCondition(
  object: WithConditions,
  type: string,
  wanted: { status: Condition['status']; reason?: string },
): boolean {
  const found = conditionOf(object, type)
  return found?.status === wanted.status && (wanted.reason ?? found.reason) === found.reason
}
