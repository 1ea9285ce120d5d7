/** Plays one history of handoffs: troubles, then a rest in which everything must complete. */

import { derivedName } from '../../src/apis/ids.ts'
import { webhookDeliveries, webhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { shardOf } from '../../src/ha/assignment.ts'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import { RemoteDeliverySweeper } from '../../src/webhooks/delivery/takeover.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import type { StoryReplica, StoryWorld } from './story-world.ts'
import { type AcceptedDelivery, judge, type Reception, violations } from './verdict.ts'

/** Faults of replicas; each world supports some of them. */
type Trouble = 'move' | 'kill' | 'restart' | 'leave' | 'stop' | 'cut' | 'lose'

export type Step = {
  kind: 'accept' | 'disable' | 'enable' | 'delete' | 'join' | Trouble
  /** Bit set of endpoints. */
  endpoints: number
  /** Index of the replica. */
  who: number
  /** Until the next step. */
  ms: number
}

export type Plan = {
  seed: number
  replicas: number
  steps: readonly Step[]
  refusals: readonly number[]
}

export const ENDPOINTS = [
  { name: 'ordered', ordered: true },
  { name: 'ordered-too', ordered: true },
  { name: 'one', ordered: false },
  { name: 'two', ordered: false },
  { name: 'ordered-more', ordered: true },
  { name: 'more', ordered: false },
] as const

const ORGANIZATION = 'acme'
const HOUR = 3_600_000
/** Longer than an attempt takes here, including the storage of its outcome. */
const SETTLED_MS = 25_000
const LONGEST_ATTEMPT_MS = 15_000
/** Additional delay of the storage of an outcome when calls are lost: each is given up after ten seconds. */
const LOSSY_MS = 60_000
/** Longer than the interval between two scans of all objects. */
const SWEEP_MS = 11 * 60_000
/** Logged failures that no story explains. */
const FATAL = ['failed: ', 'delivery_task_failed: ', 'attempt_not_made: ']

type Seen<R> = Reception & { replica: R; at: number }

export class HandoffStory<R extends StoryReplica> {
  readonly #plan: Plan
  readonly #world: StoryWorld<R>
  readonly #endpoints: WebhookEndpoint[] = []
  readonly #deleted = new Set<string>()
  readonly #accepted: AcceptedDelivery[] = []
  readonly #receptions: Seen<R>[] = []
  /** Receptions whose outcome may be unknown. */
  readonly #broken = new Set<Reception>()
  /** Until when a replica with lost calls may still wait for one of them. */
  readonly #lossyUntil = new Map<R, number>()
  /** End of the last trouble. */
  #troubledUntil = 0
  /** By endpoint, the end and the replica of its last attempt. */
  readonly #busy = new Map<string, { until: number; replica: R }>()
  readonly #overlaps: string[] = []
  #events = 0

  constructor(plan: Plan, worldOf: (seed: number, onReplica: (replica: R) => void) => StoryWorld<R>) {
    this.#plan = plan
    this.#world = worldOf(plan.seed, (replica) => this.#listen(replica))
    this.#world.onLapse = (replica) => this.#breakOf(replica)
    // Treated like the end of the replica: another one may continue before the outcome is stored.
    this.#world.onGivenUpAnyway = (replica) => this.#breakOf(replica, 2 * SETTLED_MS)
  }

  /** @returns the violations */
  async play(): Promise<string[]> {
    const { shared, clock } = this.#world
    for (const { name, ...spec } of ENDPOINTS) {
      const created = await shared.store.create(webhookEndpoints, {
        metadata: { namespace: ORGANIZATION, name },
        spec: { url: `https://receiver.example/${name}`, eventTypes: ['*'], ...spec },
      })
      this.#endpoints.push(webhookEndpoint.parse(created))
    }
    for (let n = 0; n < this.#plan.replicas; n += 1) await this.#world.join()
    for (let n = 0; n < ENDPOINTS.length; n += 1) this.#move(1 << n, n)
    await clock.elapse(100)
    for (const step of this.#plan.steps) {
      await this.#do(step)
      await clock.elapse(step.ms)
    }
    await clock.elapse(Math.max(0, this.#troubledUntil - clock.monotonic()) + this.#world.calmMs)
    const wasSettled = this.#world.isSettled
    for (const endpoint of this.#endpoints) await this.#enable(endpoint, true)
    await clock.elapse(16 * HOUR * this.#world.waitScale)
    await this.#sweep()
    const isSettled = wasSettled && this.#world.isSettled
    return [...(isSettled ? [] : ['shards are still on their way']), ...this.#complaints()]
  }

  /** A scan of the objects finds unreported ends; here it runs only at the end, if something is pending. */
  async #sweep(): Promise<void> {
    const { clock, living } = this.#world
    if (living.every(({ process: { parts } }) => parts.engine.counters.total === 0)) return
    const over = new AbortController()
    for (const {
      process: { parts },
    } of living)
      void new RemoteDeliverySweeper(parts.engine).run(over.signal)
    await clock.elapse(SWEEP_MS)
    over.abort()
  }

  async #do({ kind, endpoints, who, ms }: Step): Promise<void> {
    const world = this.#world
    const { running } = world
    const one = running[who % Math.max(1, running.length)]
    if (kind === 'accept') return await this.#accept(endpoints, 1 + (who % 3))
    if (kind === 'join' && world.living.length < 4) await world.join()
    if (kind === 'move') this.#move(endpoints, who)
    if (one) await this.#hit(one, kind, 100 + ((endpoints * 997 + ms) % 90_000))
    const chosen = this.#chosen(endpoints)[0]
    if (!chosen) return
    if (kind === 'disable' || kind === 'enable') await this.#enable(chosen, kind === 'enable')
    if (kind === 'delete') {
      this.#deleted.add(chosen.metadata.name)
      await world.shared.api.delete(webhookEndpoints, { namespace: ORGANIZATION, name: chosen.metadata.name })
    }
  }

  /** @param ms how long it lasts */
  async #hit(one: R, kind: Step['kind'], ms: number): Promise<void> {
    const world = this.#world
    if (kind === 'kill' || kind === 'restart' || kind === 'stop' || kind === 'cut') this.#breakOf(one)
    const lasts = kind === 'stop' || kind === 'cut' || kind === 'lose'
    this.#troubledUntil = Math.max(this.#troubledUntil, world.clock.monotonic() + (lasts ? ms : 0))
    if (kind === 'kill') await world.kill(one)
    if (kind === 'restart') world.restart?.(one)
    if (kind === 'leave') await world.leave?.(one)
    if (kind === 'stop') world.stop(one, ms)
    if (kind === 'cut') world.cut(one, ms)
    if (kind === 'lose') {
      this.#lossyUntil.set(one, world.clock.monotonic() + ms + SETTLED_MS)
      world.lose(one, ms)
    }
  }

  #move(endpoints: number, who: number): void {
    const { running } = this.#world
    const to = running[who % Math.max(1, running.length)]
    const uids = this.#endpoints.filter((_, n) => endpoints & (1 << n)).map(({ metadata }) => metadata.uid)
    if (to) this.#world.move?.([...new Set(uids.map(shardOf))], to)
  }

  /** The selected endpoints that still exist. */
  #chosen(endpoints: number): WebhookEndpoint[] {
    return this.#endpoints.filter(
      ({ metadata: { name } }, n) => endpoints & (1 << n) && !this.#deleted.has(name),
    )
  }

  async #accept(endpoints: number, count: number): Promise<void> {
    const to = this.#chosen(endpoints).map(({ metadata: { name, uid } }) => ({ name, uid }))
    if (to.length === 0) return
    const acceptedAt = Math.floor(this.#world.clock.now())
    const events = Array.from({ length: count }, () => {
      this.#events += 1
      const name = derivedName(acceptedAt, `event ${this.#events}`)
      return acceptEvent(
        { name, namespace: ORGANIZATION, type: 'test.event', dataText: '1', happenedAt: acceptedAt },
        to,
      )
    })
    await this.#world.shared.append(events)
    for (const { event } of events)
      for (const { name } of to) this.#accepted.push({ endpoint: name, id: `msg_${event.id}` })
  }

  async #enable({ metadata: { name } }: WebhookEndpoint, enabled: boolean): Promise<void> {
    if (this.#deleted.has(name)) return
    const ref = { namespace: ORGANIZATION, name }
    await this.#world.shared.api.patch(webhookEndpoints, ref, {
      spec: { state: enabled ? 'enabled' : 'disabled' },
    })
  }

  #listen(replica: R): void {
    for (const { name } of ENDPOINTS)
      replica.process.sender.answers.set(`/${name}`, (id) => this.#receive(name, id, replica))
  }

  #receive(endpoint: string, id: string, replica: R): number {
    const { clock, chance } = this.#world
    const ms = 1 + Math.floor(chance() * (chance() < 0.1 ? LONGEST_ATTEMPT_MS : 20))
    replica.process.sender.latencyMs = ms
    const before = this.#receptions.filter((one) => one.endpoint === endpoint && one.id === id).length
    const index = this.#accepted.findIndex((one) => one.id === id)
    const { refusals } = this.#plan
    const ok = before >= (refusals[index % refusals.length] ?? 0)
    const at = clock.monotonic()
    const isOrdered = ENDPOINTS.some(({ name, ordered }) => name === endpoint && ordered)
    const busy = this.#busy.get(endpoint)
    // The connections of a killed replica are closed, and the next one with its name waits for nothing.
    if (isOrdered && busy && busy.until > at && !busy.replica.isReplaced)
      this.#overlaps.push(`${sessionOf(replica)} sends ${id} to ${endpoint} beside another attempt`)
    this.#busy.set(endpoint, { until: at + ms, replica })
    this.#overlaps.push(...this.#wrongOwners(endpoint, replica))
    this.#receptions.push({ endpoint, id, run: 1, answer: ok ? 'ok' : 'failed', replica, at })
    return ok ? 200 : 500
  }

  /** Other owners of the shard of this endpoint than its sender. */
  #wrongOwners(name: string, replica: R): string[] {
    const endpoint = this.#endpoints.find(({ metadata }) => metadata.name === name)
    const owners = endpoint && this.#world.ownersOf?.(shardOf(endpoint.metadata.uid))
    // A request of a replica that was stopped since may arrive when it owns nothing.
    const isDriven = owners?.[0] === replica || !replica.process.runs
    if (!owners || (isDriven && owners.every((owner) => owner === replica))) return []
    const words = owners.map(sessionOf).join(' and ') || 'nobody'
    return [`${sessionOf(replica)} sends to ${name}, which ${words} drives`]
  }

  /** Marks its attempts in progress as repeatable. */
  #breakOf(replica: R, withinMs = SETTLED_MS): void {
    const now = this.#world.clock.monotonic()
    const since = now - withinMs - (now < (this.#lossyUntil.get(replica) ?? 0) ? LOSSY_MS : 0)
    for (const seen of this.#receptions)
      if (seen.replica === replica && seen.at > since) this.#broken.add(seen)
  }

  #complaints(): string[] {
    const { shared, living } = this.#world
    const remains = ({ endpoint }: { endpoint: string }) => !this.#deleted.has(endpoint)
    const verdict = judge({
      accepted: this.#accepted,
      receptions: this.#receptions,
      orderedEndpoints: new Set(ENDPOINTS.filter(({ ordered }) => ordered).map(({ name }) => name)),
      killed: new Set(),
      maxAttempts: 8,
      excuses: {
        explains: (earlier) => this.#broken.has(earlier),
        unknown: (receptions) => receptions.filter((one) => this.#broken.has(one)).length,
        exhausted: new Set(),
      },
    })
    const found = violations({ ...verdict, lost: verdict.lost.filter(remains) })
    // Kubernetes collects the dependents of a deleted endpoint, however late they were created.
    const unfinished = shared.store
      .all(webhookDeliveries)
      .filter((raw) => !isFinal(webhookDelivery.parse(raw).status?.state))
      .map(({ spec }) => spec as { endpoint: string })
      .filter(remains)
      .map(({ endpoint }) => endpoint)
    const marks = new Set(living.map(({ process: { parts } }) => parts.segments.lowWater))
    return [
      ...found,
      ...this.#overlaps,
      ...(this.#world.violations ?? []),
      ...(unfinished.length === 0 ? [] : [`objects are not finished: ${unfinished.join(', ')}`]),
      ...(marks.size === 1 ? [] : [`marks differ: ${[...marks].join(', ')}`]),
      ...living.flatMap((replica) => this.#leftAt(replica)),
    ]
  }

  #leftAt({ process }: R): string[] {
    const { session, parts, complaints } = process
    const { engine, segments } = parts
    const failures = complaints.filter((one) => FATAL.some((start) => one.startsWith(start)))
    return [
      ...(engine.counters.total === 0 ? [] : [`${engine.counters.total} are pending at ${session}`]),
      ...(segments.size === 0 ? [] : [`${segments.size} segments are open at ${session}`]),
      ...(failures.length === 0 ? [] : [`${session} says: ${failures[0]}`]),
    ]
  }
}

function sessionOf({ process }: StoryReplica): string {
  return process.session
}
