/**
 * Finds controllers that did not renew their Lease for so long that they stop by themselves, although there was no fault: that
 * happens on a busy machine. The others may then take over their work, as after a fault.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { leases, leaseTimes } from '../../../src/apis/core-kinds.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../../support/list-all.ts'
import { explains, type Silence } from './explained.ts'
import type { FaultRecord } from './fault-work.ts'
import type { Fleet } from './fleet.ts'

/** For one life. Times by `performance.now()`. */
type Seen = { version: string; at: number; isHeard: boolean; lapse?: FaultRecord }

const POLL_MS = 500

export class LapseWatch {
  readonly #fleet: Fleet
  readonly #holdsMs: number
  /** Others claim the shards of a replica that was silent for this long, and it starts again from what is stored. */
  readonly #goneMs: number
  readonly #byLife = new Map<number, Seen>()
  readonly #lapses: FaultRecord[] = []
  readonly #silences: Silence[] = []
  readonly #renewals = new Map<number, number[]>()
  /** When a read was answered, by `performance.now()`. */
  readonly looks: number[] = []
  readonly #over = new AbortController()
  #loop: Promise<void> = Promise.resolve()

  constructor(fleet: Fleet, leaseMs: number) {
    this.#fleet = fleet
    this.#holdsMs = (leaseMs * 2) / 3
    this.#goneMs = leaseMs - POLL_MS
  }

  start(): void {
    this.#loop = this.#watch()
  }

  async stop(): Promise<void> {
    this.#over.abort()
    await this.#loop
  }

  /** Silences of those that continued afterwards, whatever the cause. */
  get silences(): readonly Silence[] {
    return this.#silences
  }

  /** Renewals of each life by its own wall clock, converted to `performance.now()`. */
  get renewals(): ReadonlyMap<number, readonly number[]> {
    return this.#renewals
  }

  /** Lapses without a fault. @param faults that happened */
  without(faults: readonly FaultRecord[]): FaultRecord[] {
    return lapsesWithout(this.#lapses, faults, this.#holdsMs)
  }

  async #watch(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const asked = performance.now()
      try {
        const found = await listAll(this.#fleet.davit.api, leases, { namespace: OPERATOR_NAMESPACE })
        this.looks.push(performance.now())
        this.#take(new Map(found.map((raw) => [raw.metadata.name, raw])), asked)
      } catch {
        // No replica can renew its Lease then.
      }
      await sleep(POLL_MS)
    }
  }

  /** @param found Leases by name. @param asked time of the request */
  #take(found: ReadonlyMap<string, RawObject>, asked: number): void {
    for (const { life, process } of this.#fleet.controllers) {
      const lease = life && found.get(`davit-controller-${life.replica}`)
      if (!lease || !process.running) continue
      const version = String(lease.metadata.resourceVersion)
      const seen = this.#byLife.get(life.number)
      // The first Lease may be the leftover of the previous life.
      if (seen?.version !== version) {
        this.#noteRenewal(life.number, lease)
        if (seen?.isHeard && asked - seen.at >= this.#goneMs)
          this.#silences.push({ life: life.number, from: seen.at, to: asked })
        this.#byLife.set(life.number, { version, at: asked, isHeard: seen !== undefined })
      } else if (seen.isHeard && asked - seen.at > this.#holdsMs) this.#lapsed(life.number, seen, asked)
    }
  }

  #noteRenewal(life: number, lease: RawObject): void {
    const { data } = leaseTimes.safeParse(lease)
    if (!data) return
    const at = performance.now() - (Date.now() - Date.parse(data.spec.renewTime))
    this.#renewals.set(life, [...(this.#renewals.get(life) ?? []), at])
  }

  #lapsed(life: number, seen: Seen, now: number): void {
    if (!seen.lapse) {
      const from = seen.at + this.#holdsMs
      seen.lapse = { kind: 'lapse', from, to: now, readyAt: now, lives: [life], blows: [] }
      this.#lapses.push(seen.lapse)
    }
    seen.lapse.to = now
    seen.lapse.readyAt = now
  }
}

/**
 * Lapses that no fault explains. An orderly end explains nothing, however long a rollout of many takes. @param holdsMs time after
 * a renewal at which a replica stops by itself
 */
export function lapsesWithout(
  lapses: readonly FaultRecord[],
  faults: readonly FaultRecord[],
  holdsMs: number,
): FaultRecord[] {
  return lapses.filter(
    (lapse) =>
      !faults.some(
        ({ kind, lives, from, to }) =>
          explains(kind) &&
          from <= lapse.to &&
          to >= lapse.from - holdsMs &&
          (lives === 'all' || lives.some((life) => isOf(lapse, life))),
      ),
  )
}

function isOf({ lives }: FaultRecord, life: number): boolean {
  return lives !== 'all' && lives.includes(life)
}
