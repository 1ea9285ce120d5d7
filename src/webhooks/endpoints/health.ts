import type { WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import type { ShardOwnership } from '../../ha/ownership.ts'
import { KeyedMutex } from '../../lib/semaphore.ts'
import type { Clock } from '../../lib/time.ts'
import type { EndpointIdentity, EndpointStatusWriter, EndpointView } from './directory.ts'

/** Counts an endpoint's exhausted deliveries in a row and disables it automatically (interface §3.1). */

/** Both must be reached: so many exhausted deliveries in a row, over at least so long. */
export const DISABLE_AFTER_FAILURES = 5
export const DISABLE_AFTER_MS = 24 * 60 * 60 * 1000

export type Streak = Pick<WebhookEndpointStatus, 'consecutiveFailures' | 'failingSince' | 'lastCounted'>

export type HealthDecision =
  /** Counted before, by this replica before a crash or by another one. */
  { kind: 'counted' } | { kind: 'count'; consecutiveFailures: number; failingSince: string; disable: boolean }

/**
 * Decided at each exhausted delivery, never by a timer: a brief outage that exhausts a few deliveries does not disable.
 * @param now milliseconds since 1970
 */
export function decideExhausted(streak: Streak, deliveryId: string, now: number): HealthDecision {
  if (streak.lastCounted === deliveryId) return { kind: 'counted' }
  const consecutiveFailures = (streak.consecutiveFailures ?? 0) + 1
  const failingSince =
    consecutiveFailures > 1 && streak.failingSince ? streak.failingSince : new Date(now).toISOString()
  const disable =
    consecutiveFailures >= DISABLE_AFTER_FAILURES && now - Date.parse(failingSince) >= DISABLE_AFTER_MS
  return { kind: 'count', consecutiveFailures, failingSince, disable }
}

export class EndpointHealth {
  readonly #statuses: EndpointStatusWriter
  readonly #clock: Clock
  readonly #epochs: ShardOwnership['epochs']
  /** By endpoint UID: the delivery that is counted, or being counted, and whose own outcome is not stored yet. */
  readonly #unstored = new Map<string, string>()
  /** By endpoint UID. An outcome that cannot be stored delays the next one to be counted, and nothing else. */
  readonly #outcomes = new KeyedMutex()

  constructor(statuses: EndpointStatusWriter, clock: Clock, { epochs }: Pick<ShardOwnership, 'epochs'> = {}) {
    this.#statuses = statuses
    this.#clock = clock
    this.#epochs = epochs
  }

  /** A success ends the streak; without a streak nothing is written. */
  async succeeded(endpoint: EndpointIdentity, seen: EndpointView | undefined): Promise<void> {
    if (!isFailing(seen)) return
    await this.#statuses.exclusively(endpoint, async (view) => {
      const end = { consecutiveFailures: 0, failingSince: null }
      if (view) await this.#statuses.write(view, (now) => (isFailing(now) ? end : undefined))
    })
  }

  /**
   * Counts an exhausted delivery once, even across crashes: first in the endpoint's status, then in the delivery's own
   * outcome, one delivery after the other. Repeat it until it succeeds.
   * @throws Error if a retry may succeed; also until the outcome of the previous delivery is stored
   */
  async exhausted(
    endpoint: EndpointIdentity,
    deliveryId: string,
    writeEnd: () => Promise<unknown>,
  ): Promise<void> {
    await this.#outcomes.run(endpoint.uid, async () => {
      // An entry made now would never be removed: another replica counts, until this one owns the shard again.
      if (this.#epochs?.mayWrite === false)
        throw new Error("this replica no longer owns the endpoint's shard")
      const unstored = this.#unstored.get(endpoint.uid) ?? deliveryId
      // The status keeps only the last one counted: after another one, a crash would count this one again.
      if (unstored !== deliveryId) throw new Error(`the outcome of ${unstored} has not been stored yet`)
      this.#unstored.set(endpoint.uid, deliveryId)
      await this.#statuses.exclusively(endpoint, async (view) => {
        if (view) await this.#statuses.write(view, (now) => this.#patchFor(now, deliveryId))
      })
      await writeEnd()
      this.#unstored.delete(endpoint.uid)
    })
  }

  /** From now on another replica counts for the shard. */
  forget(shard: number): void {
    for (const uid of this.#unstored.keys()) if (shardOf(uid) === shard) this.#unstored.delete(uid)
  }

  /** Undefined if it is counted already. */
  #patchFor(view: EndpointView, deliveryId: string): object | undefined {
    const now = this.#clock.now()
    const decision = decideExhausted(streakOf(view), deliveryId, now)
    if (decision.kind === 'counted') return undefined
    const at = new Date(now).toISOString()
    const disabled =
      decision.disable && view.decision.state === 'enabled'
        ? { state: 'disabled', disabledReason: 'ConsecutiveFailures', disabledAt: at, updatedAt: at }
        : {}
    return {
      consecutiveFailures: decision.consecutiveFailures,
      failingSince: decision.failingSince,
      lastCounted: deliveryId,
      ...disabled,
    }
  }
}

/** Enabling after automatic disabling ends the old streak once it is decided, even if it is not written yet. */
function streakOf({ endpoint, decision }: EndpointView): Streak {
  const status: Streak = endpoint.status ?? { consecutiveFailures: 0 }
  if (!decision.newStreak) return status
  return {
    consecutiveFailures: 0,
    ...(status.lastCounted === undefined ? {} : { lastCounted: status.lastCounted }),
  }
}

function isFailing(view: EndpointView | undefined): boolean {
  return (view?.endpoint.status?.consecutiveFailures ?? 0) > 0
}
