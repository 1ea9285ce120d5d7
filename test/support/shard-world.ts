/**
 * Replicas, each with the real shard coordinator, in simulated time: their clocks differ, their calls are delayed or lost, and
 * they are suspended, killed and restarted. A checker validates what receivers would see.
 */

import { ShardCoordinator } from '../../src/ha/coordinator.ts'
import { OwnershipEpochs } from '../../src/ha/ownership.ts'
import {
  deriveShardTimes,
  type ReplicaRecord,
  type ReplicaRecords,
  type StoredRecord,
} from '../../src/ha/replica-leases.ts'
import { ApiError } from '../../src/kube/client.ts'
import type { OrderedWork } from './ordered-work.ts'
import { SimulatedClock, type SimulatedTime } from './simulated-time.ts'

export const SHARDS = 8
export const TIMES = deriveShardTimes(9000, 21_000)

export type Chance = { fraction(): number }

/** A fault of one replica's connection to the store: the maximum delay of each direction, and the lost share. */
type Cut = { until: number; deafFrom: number; upMs: number; downMs: number; lost: number }

const SLOW_WAY_MS = 12_000
const LATER_DEAF_MS = 20_000

/** The store of records: calls take effect atomically, in one order. */
export class SimulatedRecords {
  readonly #time: SimulatedTime
  readonly #chance: Chance
  readonly #byName = new Map<string, StoredRecord>()
  readonly #cuts = new Map<SimulatedClock, Cut>()
  /** Watches of replicas, by their clocks. */
  readonly #watches = new Map<SimulatedClock, (record: StoredRecord) => void>()
  #version = 0
  isDown = false
  /** Share of lost calls, half of them on the way back. */
  lost = 0
  /** Share of slow transfers, which take seconds. */
  slow = 0.05

  constructor(time: SimulatedTime, chance: Chance) {
    this.#time = time
    this.#chance = chance
  }

  /** As seen by one replica. */
  of(clock: SimulatedClock): ReplicaRecords {
    return {
      list: () => this.call(clock, () => structuredClone([...this.#byName.values()])),
      write: (record, over) => this.call(clock, () => this.#write(record, over)),
      remove: (name, version) =>
        this.call(clock, () => {
          if (this.#byName.get(name)?.version !== version) throw new ApiError('Conflict', 'changed')
          this.#byName.delete(name)
        }),
    }
  }

  /** Shows each written record to a replica, late or not at all like any call of it. */
  watch(clock: SimulatedClock, show: (record: StoredRecord) => void): void {
    this.#watches.set(clock, show)
  }

  calm(): void {
    this.isDown = false
    this.lost = 0
    this.slow = 0
    this.#cuts.clear()
  }

  /** Impairs the connection of one replica for a time: late in one direction or both, then silent. */
  cutOff(clock: SimulatedClock, ms: number): void {
    const way = () => (this.#chance.fraction() < 0.5 ? 0 : SLOW_WAY_MS)
    const lost = this.#chance.fraction() < 0.5 ? 0 : 0.5
    const { now } = this.#time
    const deafFrom = now + this.#chance.fraction() * LATER_DEAF_MS
    this.#cuts.set(clock, { until: now + ms, deafFrom, upMs: way(), downMs: way(), lost })
  }

  /** Removes a record by hand. */
  removeOne(): void {
    const [name] = this.#byName.keys()
    if (name) this.#byName.delete(name)
  }

  /** Executes an effect in the store and answers, each after a delay. */
  async call<T>(clock: SimulatedClock, effect: () => T): Promise<T> {
    const cut = this.#cutOf(clock)
    const isLost = this.#chance.fraction() < Math.max(this.lost, cut.lost)
    const isLostBefore = isLost && this.#chance.fraction() < 0.5
    return await new Promise<T>((resolve, reject) => {
      const unavailable = () => reject(new ApiError('Unavailable', 'no answer'))
      const fail = () => clock.after(1000, unavailable)
      this.#time.at(this.#delay(cut.upMs), () => {
        const outcome = this.isDown || isLostBefore ? undefined : attempt(effect)
        if (!outcome || isLost) fail()
        else this.#time.at(this.#delay(cut.downMs), () => clock.run(() => settle(outcome, resolve, reject)))
      })
    })
  }

  #write(record: ReplicaRecord, over: string | undefined): string {
    const held = this.#byName.get(record.name)
    if (held?.version !== over) throw new ApiError(held ? 'Conflict' : 'NotFound', 'not as said')
    this.#version += 1
    const version = String(this.#version)
    const stored = structuredClone({ ...record, version })
    this.#byName.set(record.name, stored)
    for (const [clock, show] of this.#watches) {
      const { downMs, lost } = this.#cutOf(clock)
      if (this.#chance.fraction() < Math.max(this.lost, lost)) continue
      this.#time.at(this.#delay(downMs), () => clock.run(() => show(structuredClone(stored))))
    }
    return version
  }

  #cutOf(clock: SimulatedClock): Pick<Cut, 'upMs' | 'downMs' | 'lost'> {
    const cut = this.#cuts.get(clock)
    if (!cut || cut.until <= this.#time.now) return { upMs: 0, downMs: 0, lost: 0 }
    return cut.deafFrom > this.#time.now ? cut : { ...cut, lost: 1 }
  }

  #delay(mostMs: number): number {
    const ms = 1 + this.#chance.fraction() * 30
    if (mostMs > 0) return this.#chance.fraction() * mostMs
    return this.#chance.fraction() < this.slow ? ms * 130 : ms
  }
}

type Outcome<T> = { value: T } | { error: unknown }

function attempt<T>(effect: () => T): Outcome<T> {
  try {
    return { value: effect() }
  } catch (error) {
    return { error }
  }
}

function settle<T>(outcome: Outcome<T>, resolve: (value: T) => void, reject: (error: unknown) => void): void {
  if ('error' in outcome) reject(outcome.error)
  else resolve(outcome.value)
}

export type Replica = {
  readonly name: string
  readonly clock: SimulatedClock
  readonly coordinator: ShardCoordinator
  leave(): void
  kill(): void
}

/**
 * Starts a replica; `isNameOwn` if no living replica has its name. Its work is an endless sequence of ordered deliveries in every
 * shard that it owns.
 */
export function startReplica(world: {
  name: string
  isNameOwn: boolean
  session: string
  time: SimulatedTime
  records: SimulatedRecords
  work: OrderedWork
  chance: Chance
}): Replica {
  const { name, isNameOwn, session, time, records, chance } = world
  const clock = new SimulatedClock(time, {
    rate: 0.98 + chance.fraction() * 0.04,
    wallOffset: chance.fraction() * 1e6,
  })
  const worker = world.work.worker({ session, clock, call: (effect) => records.call(clock, effect) })
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const coordinator = new ShardCoordinator({
    name,
    isNameExclusive: isNameOwn,
    session,
    shards: SHARDS,
    maxMembers: 64,
    times: TIMES,
    records: records.of(clock),
    epochs: new OwnershipEpochs(),
    work: worker,
    clock,
    log: quiet,
    onReplaced: () => clock.kill(),
  })
  records.watch(clock, (record) => coordinator.hear(record))
  worker.begin(coordinator, (shard) => coordinator.restart([shard]))
  const abort = new AbortController()
  void coordinator.run(abort.signal).then(() => clock.isDead || worker.left())
  return {
    name,
    clock,
    coordinator,
    leave: () => coordinator.leave(),
    kill() {
      clock.kill()
      worker.kill()
    },
  }
}
