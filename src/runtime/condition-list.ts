import type { Condition } from '../api/meta.ts'

/**
 * The list with this condition in the place of the one of its type, or at the end. `lastTransitionTime` stays
 * unless the status changes. @param now milliseconds since 1970
 */
export function withCondition(
  conditions: readonly Condition[] | undefined,
  next: Omit<Condition, 'lastTransitionTime'>,
  now: number,
): Condition[] {
  const list = conditions ?? []
  const held = list.find((condition) => condition.type === next.type)
  const since = held && held.status === next.status ? held.lastTransitionTime : new Date(now).toISOString()
  const condition = { ...next, lastTransitionTime: since }
  return held ? list.map((each) => (each === held ? condition : each)) : [...list, condition]
}
