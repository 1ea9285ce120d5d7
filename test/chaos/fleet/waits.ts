/** Checks whether attempts of one delivery follow the schedule. */
import { MAX_ATTEMPTS, nextAttemptAt } from '../../../src/webhooks/delivery/retry-schedule.ts'
import type { SeenReception } from '../receivers.ts'

export type Wait = { endpoint: string; id: string; attempt: number; ms: number; allowed: [number, number] }

export type WaitPolicy = {
  ordered: boolean
  scale: number
  /** Whether a fault of Davit or of the endpoint between two moments allows a longer wait. */
  mayBeLate(from: number, to: number): boolean
  /** Whether other attempts of the endpoint were slow then, so that one waits for a slot. */
  isCrowded(from: number, to: number): boolean
  /** Whether a shorter wait is allowed: the previous outcome is unknown, a clock was set, or this program noticed it late. */
  mayBeEarly(before: readonly SeenReception[], to: number): boolean
}

/** Difference of two processes' clocks, and the time between them and the wire. */
const EARLY_MS = 10
/** Additional time on a busy machine; and, if slots are taken, the duration of an attempt. */
const LATE_MS = { free: 5000, crowded: 25_000 }
const SHORTEST = 1 - Number.EPSILON

export type ComparedWaits = {
  /** Too short, or too long. */
  wrong: Wait[]
  compared: number
  /** Maximum delay beyond the schedule, of undisturbed attempts that did not wait for a slot. */
  latestMs: number
}

/** @param receptions of one delivery, in order */
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
  // A handoff waits for all work in progress of its shard.
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
 * For ordered deliveries, waits are measured from start to start, and it is unknown how long the first request took to arrive: on
 * a busy machine, with cadences of fractions of a second, a good part of one. An immediate repetition is found nevertheless.
 */
function toleranceOf(before: SeenReception, earliest: number, { ordered }: WaitPolicy): number {
  return ordered ? (earliest - before.at) * 0.7 : EARLY_MS
}
