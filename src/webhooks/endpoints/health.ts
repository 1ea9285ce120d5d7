import type { WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import type { ShardOwnership } from '../../ha/ownership.ts'
import type { Clock } from '../../lib/clock.ts'
import { KeyedMutex } from '../../lib/semaphore.ts'
import type { EndpointStatusWriter, EndpointView } from './directory.ts'

/** Counting exhausted deliveries and disabling automatically (interface §3.1). */

/** Both must hold: so many exhausted deliveries in a row, over at least so long. */
export const DISABLE_AFTER_FAILURES = 5
export const DISABLE_AFTER_MS = 24 * 60 * 60 * 1000

export type Streak = Pick<WebhookEndpointStatus, 'consecutiveFailures' | 'failingSince' | 'lastCounted'>

export type HealthDecision =
  /** Counted before: a repeat after a crash. */
  { kind: 'counted' } | { kind: 'count'; consecutiveFailures: number; failingSince: string; disable: boolean }

/**
 * What an exhausted delivery does to the streak. Decided only here, never by a timer: a brief outage that
 * exhausts a few deliveries does not disable. @param now milliseconds since 1970
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

/** The streak of exhausted deliveries of an endpoint, and automatic disabling (interface §3.1). */

type EndpointIdentity = { namespace: string; name: string; uid: string }

export class EndpointHealth {
  readonly #statuses: EndpointStatusWriter
  readonly #clock: Clock
  readonly #epochs: ShardOwnership['epochs']
  /** By endpoint UID: the delivery that was counted, or is being counted, and whose own end is not stored. */
  readonly #unended = new Map<string, string>()
  /** By endpoint UID. An end that cannot be stored keeps waiting only the next one to be counted, and nothing else of its endpoint. */
  readonly #ends = new KeyedMutex()

  constructor(statuses: EndpointStatusWriter, clock: Clock, { epochs }: Pick<ShardOwnership, 'epochs'> = {}) {
    this.#statuses = statuses
    this.#clock = clock
    this.#epochs = epochs
  }

  /** A success ends the streak; nothing is written while all is well. */
  async succeeded(of: EndpointIdentity, seen: EndpointView | undefined): Promise<void> {
    if (!isFailing(seen)) return
    await this.#statuses.exclusively(of, async (view) => {
      if (view && isFailing(view)) {
        await this.#statuses.write(view, (now) =>
          isFailing(now) ? { consecutiveFailures: 0, failingSince: null } : undefined,
        )
      }
    })
  }

  /**
   * Counts an exhausted delivery once, across crashes: the endpoint's status first, then the delivery's own
   * end, one delivery after the other. Repeat it until it succeeds.
   * @throws Error what may pass by itself; also while the end of the delivery before is not stored
   */
  async exhausted(of: EndpointIdentity, deliveryId: string, writeEnd: () => Promise<unknown>): Promise<void> {
    await this.#ends.run(of.uid, async () => {
      // What it would note here, nobody would forget: another replica counts, and this one again when it has the shard again.
      if (this.#epochs?.mayWrite === false) throw new Error('Its shard is not driven here any more')
      const unended = this.#unended.get(of.uid) ?? deliveryId
      // Only the last one counted is noted: another one would make this one count again after a crash.
      if (unended !== deliveryId) throw new Error(`The end of ${unended} is not stored yet`)
      this.#unended.set(of.uid, deliveryId)
      await this.#statuses.exclusively(of, async (view) => {
        if (view) await this.#statuses.write(view, (now) => this.#counted(now, deliveryId))
      })
      await writeEnd()
      this.#unended.delete(of.uid)
    })
  }

  /** Another replica counts what belongs to the shard from here on. */
  forget(shard: number): void {
    for (const uid of this.#unended.keys()) if (shardOf(uid) === shard) this.#unended.delete(uid)
  }

  /** Undefined where it is counted: by this replica before a crash, or by one that has had the shard meanwhile. */
  #counted(view: EndpointView, deliveryId: string): object | undefined {
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

/** An enabling after automatic disabling that is decided and not yet written has ended the old streak already. */
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
