/**
 * Replicas of the REST server, each with the real presence and the real waiting, in simulated time: their watches lag, their
 * calls are delayed or lost, and they are suspended, killed and restarted. A checker validates what publishes would be matched
 * against.
 */

import { ApiError } from '../../src/kube/client.ts'
import {
  type PeerRecords,
  PeerServers,
  ReplicaHeartbeat,
  type StoredPeerRecord,
} from '../../src/server/peers.ts'
import { type Chance, SimulatedRecords } from './shard-world.ts'
import { SimulatedClock, type SimulatedTime } from './simulated-time.ts'

export const LEASE_MS = 9000

/** The store: changes of endpoints have versions, and each replica has a record. */
export class ServerStore {
  readonly ways: SimulatedRecords
  readonly #byName = new Map<string, StoredPeerRecord>()
  /** Called with each record that is written. */
  readonly watchers = new Set<(record: StoredPeerRecord) => void>()
  /** The version of the endpoints; each change increments it. */
  version = 100
  #writes = 0

  constructor(time: SimulatedTime, chance: Chance) {
    this.ways = new SimulatedRecords(time, chance)
  }

  get records(): number {
    return this.#byName.size
  }

  /** @param isMute whether its writes fail now */
  of(clock: SimulatedClock, isMute: () => boolean): PeerRecords {
    return {
      list: () => this.ways.call(clock, () => structuredClone([...this.#byName.values()])),
      write: (record, over) =>
        this.ways.call(clock, () => {
          if (isMute()) throw new ApiError('Unavailable', 'no answer')
          const held = this.#byName.get(record.name)
          if (held?.version !== over) throw new ApiError(held ? 'Conflict' : 'NotFound', 'not as said')
          this.#writes += 1
          const stored = { ...record, version: String(this.#writes) }
          this.#byName.set(record.name, stored)
          for (const show of this.watchers) show(stored)
          return String(this.#writes)
        }),
      remove: (name, version) =>
        this.ways.call(clock, () => {
          if (this.#byName.get(name)?.version !== version) throw new ApiError('Conflict', 'changed')
          this.#byName.delete(name)
        }),
    }
  }
}

/** A watch of endpoints that lags behind. */
class LateWatch {
  version = 0
  isListed = false
  #readings = 0
  readonly #follow: (lag: () => void) => void
  readonly #list: () => Promise<number>
  readonly #store: ServerStore
  onChange: () => void = () => undefined

  constructor(store: ServerStore, list: () => Promise<number>, follow: (deliver: () => void) => void) {
    this.#store = store
    this.#list = list
    this.#follow = follow
  }

  read(): void {
    this.isListed = false
    this.#readings += 1
    void this.#begin(this.#readings)
  }

  async #begin(reading: number): Promise<void> {
    for (;;) {
      const version = await this.#list().catch(() => undefined)
      if (reading !== this.#readings) return
      if (version === undefined) continue
      this.version = Math.max(this.version, version)
      this.isListed = true
      this.onChange()
      this.#next(reading)
      return
    }
  }

  #next(reading: number): void {
    const { version } = this.#store
    this.#follow(() => {
      if (reading !== this.#readings) return
      if (version > this.version) {
        this.version = version
        this.onChange()
      }
      this.#next(reading)
    })
  }
}

/** Acknowledged changes, and publishes that would violate them. */
export class Answers {
  readonly wrong: string[] = []
  publishes = 0
  refused = 0
  late = 0
  readonly #answered: { version: number; by: string }[] = []

  get count(): number {
    return this.#answered.length
  }

  add(version: number, by: string): void {
    this.#answered.push({ version, by })
  }

  /** Checks a publish that is matched now, on everything seen up to this version and on this session's own writes. */
  check(seen: number, session: string): void {
    this.publishes += 1
    const missed = this.#answered.find(({ version, by }) => version > seen && by !== session)
    if (missed) this.wrong.push(`${session} publishes as of ${seen}, and ${missed.version} was answered`)
  }
}

export type SimulatedServer = {
  readonly name: string
  readonly clock: SimulatedClock
  readonly presence: ReplicaHeartbeat
  /** Share of watch events that are seconds late. */
  lag: number
  /** Whether it cannot renew its Lease. */
  isMute: boolean
  change(): Promise<boolean>
  publishes(): boolean
  leave(): void
}

export function startSimulatedServer(world: {
  name: string
  session: string
  time: SimulatedTime
  store: ServerStore
  answers: Answers
  chance: Chance
}): SimulatedServer {
  const { name, session, time, store, answers, chance } = world
  const rate = 0.98 + chance.fraction() * 0.04
  const clock = new SimulatedClock(time, { rate, wallOffset: chance.fraction() * 1e6 })
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const deliverLate = (deliver: () => void) => {
    const ms = chance.fraction() < server.lag ? chance.fraction() * 20_000 : 1 + chance.fraction() * 60
    time.at(ms, () => clock.run(deliver))
  }
  const watch: LateWatch = new LateWatch(
    store,
    () => store.ways.call(clock, () => store.version),
    deliverLate,
  )
  const shared = { name, leaseMs: LEASE_MS, records: store.of(clock, () => server.isMute), clock, log }
  const presence = new ReplicaHeartbeat({
    ...shared,
    session,
    watch,
    read: () => watch.read(),
    behind: () => (watch.isListed ? undefined : 'being read'),
  })
  watch.onChange = () => presence.changed()
  const others = new PeerServers({ ...shared, isWatching: () => true })
  store.watchers.add((record) => deliverLate(() => others.heard(record)))
  const tidying = new AbortController()
  presence.start()
  void others.collectExpiredForever(tidying.signal)
  let hasLeft = false
  const publishes = () => !hasLeft && presence.problem === undefined
  const publish = () => {
    if (hasLeft) return
    if (publishes()) answers.check(watch.version, session)
    else answers.refused += 1
    clock.after(20 + chance.fraction() * 200, publish)
  }
  publish()
  const server: SimulatedServer = {
    name,
    clock,
    presence,
    lag: 0,
    isMute: false,
    async change() {
      const version = await store.ways.call(clock, () => {
        store.version += 1
        return store.version
      })
      const haveSeen = await others.haveSeen(() => version)
      if (haveSeen) answers.add(version, session)
      else answers.late += 1
      return haveSeen
    },
    publishes,
    leave() {
      hasLeft = true
      tidying.abort()
      void presence.leave()
    },
  }
  return server
}
