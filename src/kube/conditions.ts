/** Conditions that kstatus, Flux, Argo CD and `kubectl wait` read right. */
import type { Condition } from '../apis/meta.ts'
import { sanitizeText } from '../lib/plain-text.ts'

export type ConditionUpdate = {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
}

/** The conditions after this look: `lastTransitionTime` moves only with the status. @param now milliseconds since 1970 */
export function mergeConditions(
  before: readonly Condition[] | undefined,
  findings: readonly ConditionUpdate[],
  at: { now: number; generation: number },
): Condition[] {
  return findings.map((finding) => {
    const held = before?.find((condition) => condition.type === finding.type)
    const moved = held?.status !== finding.status
    return {
      ...finding,
      message: sanitizeText(finding.message, 1000),
      observedGeneration: at.generation,
      lastTransitionTime: moved || !held ? new Date(at.now).toISOString() : held.lastTransitionTime,
    }
  })
}
