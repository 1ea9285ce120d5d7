/**
 * When a write that the API server refused for one event alone is tried again: after a wait that grows, and in one organization
 * only so many in a while, so that a policy that refuses thousands of them does not cost hundreds of calls a second.
 */
import type { EventOutline } from '../../apis/event-outline.ts'
import { type BackoffLimits, backoffMs } from '../../lib/backoff.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'

/** Refusals of one organization in a while, after which none is tried again until it is over. What succeeds does not count. */
const AT_MOST = 20
const WHILE_MS = 2000

type Refused = { at: number; refusals: number }
type RefusalWindow = { until: number; refusals: number }

export class WriteBackoff {
  readonly #clock: Clock
  readonly #random: Random
  readonly #limits: BackoffLimits
  /** By UID: when it is due again, monotonic, after so many refusals in a row. */
  readonly #refused = new Map<string, Refused>()
  /** By organization. */
  readonly #whiles = new Map<string, RefusalWindow>()

  constructor({ clock, random }: { clock: Clock; random: Random }, limits: BackoffLimits) {
    this.#clock = clock
    this.#random = random
    this.#limits = limits
  }

  /** Events that it knows of. */
  get size(): number {
    return this.#refused.size
  }

  /** @returns for how long it is not to be tried, milliseconds; 0 where it is due, or was never refused */
  waitOf({ metadata: { uid, namespace } }: EventOutline): number {
    const refused = this.#refused.get(uid)
    if (!refused) return 0
    const now = this.#clock.monotonic()
    const { until = now, refusals = 0 } = this.#whiles.get(namespace) ?? {}
    return Math.max(0, refused.at - now, refusals < AT_MOST ? 0 : until - now)
  }

  /** Those that are due: what was never refused in the order given, then what has waited longest since it was due. */
  due(events: readonly EventOutline[]): EventOutline[] {
    const at = ({ metadata }: EventOutline) => this.#refused.get(metadata.uid)?.at ?? 0
    return events.filter((event) => this.waitOf(event) === 0).sort((a, b) => at(a) - at(b))
  }

  add({ metadata: { uid, namespace } }: EventOutline): void {
    const now = this.#clock.monotonic()
    const refusals = (this.#refused.get(uid)?.refusals ?? 0) + 1
    this.#refused.set(uid, { at: now + backoffMs(refusals, this.#limits, this.#random), refusals })
    for (const [organization, { until }] of this.#whiles) if (until <= now) this.#whiles.delete(organization)
    const running = this.#whiles.get(namespace) ?? { until: now + WHILE_MS, refusals: 0 }
    running.refusals += 1
    this.#whiles.set(namespace, running)
  }

  /** It was done, or there is nothing to do any more. */
  forget(uid: string): void {
    this.#refused.delete(uid)
  }
}
