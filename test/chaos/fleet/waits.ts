/** Whether attempts of one delivery follow each other on the schedule. */
import { MAX_ATTEMPTS, nextAttemptAt } from '../../../src/domain/retry-schedule.ts'
import type { SeenReception } from '../receivers.ts'

export type Wait = { endpoint: string; id: string; attempt: number; ms: number; allowed: [number, number] }

export type WaitPolicy = {
  ordered: boolean
  scale: number
  /** Whether something was done to Davit, or to the endpoint, between two moments that lets a wait be longer. */
  mayBeLate(from: number, to: number): boolean
  /** Whether it may be shorter: the outcome before is known to nobody, a clock was set, or this program saw it late. */
  mayBeEarly(before: readonly SeenReception[], to: number): boolean
}

/** Clocks of two processes, and what lies between the wire and them. */
const EARLY_MS = 10
/** An attempt waits for a slot of its endpoint, and those are taken for as long as an attempt may last. */
const LATE_MS = 25_000
const SHORTEST = 1 - Number.EPSILON

/** @param receptions of one delivery, in their order @returns those that are too short or too long, and how many were looked at */
export function compareWaits(
  receptions: readonly SeenReception[],
  policy: WaitPolicy,
): { wrong: Wait[]; compared: number } {
  const wrong: Wait[] = []
  let compared = 0
  for (const [index, next] of receptions.entries()) {
    const before = receptions[index - 1]
    if (!before || before.answer === 'ok' || index >= MAX_ATTEMPTS) continue
    const mayBeEarly = policy.mayBeEarly(receptions.slice(0, index), next.at)
    const mayBeLate = policy.mayBeLate(before.at, next.at)
    if (!mayBeEarly || !mayBeLate) compared += 1
    const times = { startedAt: before.at, endedAt: Math.min(before.endedAt, next.at) }
    const earliest = nextAttemptAt(index, times, policy, SHORTEST) ?? 0
    const latest = nextAttemptAt(index, times, policy, 0) ?? 0
    const isEarly = !mayBeEarly && next.at < earliest - toleranceOf(before, earliest, policy)
    const isLate = !mayBeLate && next.at > latest + LATE_MS
    if (!isEarly && !isLate) continue
    const allowed: [number, number] = [earliest - times.endedAt, latest - times.endedAt]
    wrong.push({
      endpoint: next.endpoint,
      id: next.id,
      attempt: index + 1,
      ms: next.at - times.endedAt,
      allowed,
    })
  }
  return { wrong, compared }
}

/**
 * Ordered ones are from start to start, and how long the first took to get here is not known: on a busy machine, where cadences are fractions of
 * a second, a good part of one. What is sent again at once is found all the same.
 */
function toleranceOf(before: SeenReception, earliest: number, { ordered }: WaitPolicy): number {
  return ordered ? (earliest - before.at) * 0.7 : EARLY_MS
}
