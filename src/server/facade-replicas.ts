/** The replicas of the facade as this one sees them, wired: its own Lease, the others, and the writers that wait for them. */

import type { ResourceReader, ResourceWriter } from '../kube/client.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import { type EndpointReplicas, ReplicaBarrier } from './endpoint-replicas.ts'
import { PeerLeases } from './facade-leases.ts'
import { PeerServers } from './other-facades.ts'
import { ReplicaHeartbeat } from './peers.ts'
import type { EndpointProgress } from './replica-barrier.ts'
import type { ServerWatches } from './watches.ts'

export type ServerReplicasOptions = {
  api: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  /** The replica's name. */
  writer: string
  /** How long its Lease counts without being renewed. */
  leaseMs: number
  /** Of Leases, where the world has a time of its own. */
  leaseClock?: Clock | undefined
  clock: Clock
  random: Random
  log: Logger
}

/** Whether others wait for what this replica has not seen, how old its Lease is, and how many changes here wait for others. */
export type ReplicaStats = { isWaitedFor: boolean; leaseAgeMs: number; waiting: number }

export class ServerReplicas {
  readonly endpoints: EndpointReplicas
  readonly #presence: ReplicaHeartbeat
  readonly #others: PeerServers
  readonly #watches: ServerWatches
  readonly #stopping = new AbortController()
  #tidying: Promise<void> = Promise.resolve()

  constructor(options: ServerReplicasOptions, watches: ServerWatches, progress: EndpointProgress) {
    const { api, namespace, writer, leaseMs, leaseClock: clock = options.clock, random, log } = options
    const records = new PeerLeases({ resources: api, namespace, clock })
    const shared = { name: writer, leaseMs, records, clock, log }
    this.#watches = watches
    this.#others = new PeerServers(shared)
    this.#presence = new ReplicaHeartbeat({
      ...shared,
      session: `${writer}.${Buffer.from(random.bytes(6)).toString('hex')}`,
      watch: watches.endpoints,
      read: () => watches.readEndpoints(),
      behind: () => watches.problemOf('endpoints'),
    })
    this.endpoints = new ReplicaBarrier(this.#others, progress)
  }

  /** Something was seen that other replicas may wait for. */
  changed(): void {
    this.#presence.changed()
  }

  /** Why it may not be known which endpoints there are, in words; undefined while it is. */
  behind(): string | undefined {
    return this.#presence.problem ?? this.#watches.problemOf('endpoints')
  }

  stats(): ReplicaStats {
    const { isWaitedFor, leaseAgeMs } = this.#presence
    return { isWaitedFor, leaseAgeMs, waiting: this.#others.waiting }
  }

  start(): void {
    this.#presence.start()
    this.#tidying = this.#others.collectExpiredForever(this.#stopping.signal)
  }

  /** Nothing is published any more. */
  async leave(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([this.#presence.leave(), this.#tidying])
  }
}
