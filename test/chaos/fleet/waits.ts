/** Whether attempts of one delivery follow each other on the schedule. */
import { MAX_ATTEMPTS, nextAttemptAt } from '../../../src/webhooks/delivery/status.ts'
import type { SeenReception } from '../receivers.ts'

export type Wait = { endpoint: string; id: string; attempt: number; ms: number; allowed: [number, number] }

export type WaitPolicy = {
  ordered: boolean
  scale: number
  /** Whether something was done to Davit, or to the endpoint, between two moments that lets a wait be longer. */
  mayBeLate(from: number, to: number): boolean
  /** Whether other attempts of the endpoint took long then: one waits for a slot. */
  isCrowded(from: number, to: number): boolean
  /** Whether it may be shorter: the outcome before is known to nobody, a clock was set, or this program saw it late. */
  mayBeEarly(before: readonly SeenReception[], to: number): boolean
}

/** Clocks of two processes, and what lies between the wire and them. */
const EARLY_MS = 10
/** What a machine that is busy needs beyond the schedule; and where slots are taken, for as long as an attempt may last. */
const LATE_MS = { free: 5000, crowded: 25_000 }
const SHORTEST = 1 - Number.EPSILON

export type ComparedWaits = {
  /** Too short, or too long. */
  wrong: Wait[]
  compared: number
  /** Beyond the schedule, of those that nothing disturbed and that had not to wait for a slot. */
  latestMs: number
}

/** @param receptions of one delivery, in their order */
export function compareWaits(receptions: readonly SeenReception[], policy: WaitPolicy): ComparedWaits {
  const found: ComparedWaits = { wrong: [], compared: 0, latestMs: 0 }
  for (const index of receptions.keys()) {
    const before = receptions[index - 1]
    const next = receptions[index]
    if (before && next && before.answer !== 'ok' && index < MAX_ATTEMPTS)
      compare(receptions.slice(0, index), next, policy, found)
  }
  return found
}

function compare(
  attempts: readonly SeenReception[],
  next: SeenReception,
  policy: WaitPolicy,
  found: ComparedWaits,
): void {
  const before = attempts.at(-1) ?? next
  const mayBeEarly = policy.mayBeEarly(attempts, next.at)
  const mayBeLate = policy.mayBeLate(before.at, next.at)
  if (!mayBeEarly || !mayBeLate) found.compared += 1
  const times = { startedAt: before.at, endedAt: Math.min(before.endedAt, next.at) }
  const earliest = nextAttemptAt(attempts.length, times, policy, SHORTEST) ?? 0
  const latest = nextAttemptAt(attempts.length, times, policy, 0) ?? 0
  const isEarly = !mayBeEarly && next.at < earliest - toleranceOf(before, earliest, policy)
  // Whoever hands a shard over waits for all that is under way in it.
  const isCrowded = before.run !== next.run || policy.isCrowded(before.at, next.at)
  const isLate = !mayBeLate && next.at > latest + (isCrowded ? LATE_MS.crowded : LATE_MS.free)
  if (!mayBeLate && !isCrowded) found.latestMs = Math.max(found.latestMs, next.at - latest)
  if (!isEarly && !isLate) return
  found.wrong.push({
    endpoint: next.endpoint,
    id: next.id,
    attempt: attempts.length + 1,
    ms: next.at - times.endedAt,
    allowed: [earliest - times.endedAt, latest - times.endedAt],
  })
}

/**
 * Ordered ones are from start to start, and how long the first took to get here is not known: on a busy machine, where cadences are fractions of
 * a second, a good part of one. What is sent again at once is found all the same.
 */
function toleranceOf(before: SeenReception, earliest: number, { ordered }: WaitPolicy): number {
  return ordered ? (earliest - before.at) * 0.7 : EARLY_MS
}
