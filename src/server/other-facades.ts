/** Waits until every other replica of the facade that lives has seen a change: the rare writer waits, so that no publish has to. */

import { isApiError } from '../kube/client.ts'
import type { Clock } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import { sleep } from '../lib/sleep.ts'
import type { PeerRecords, StoredPeerRecord } from './facade-records.ts'

export type PeerServersOptions = {
  /** The replica's own name. */
  name: string
  leaseMs: number
  records: PeerRecords
  clock: Clock
  log: Logger
}

/** Times are monotonic milliseconds of this process. */
type Other = {
  record: StoredPeerRecord
  /** When this version was first seen: it was written before. */
  seenAt: number
}

type Waiter = {
  /** Undefined while it is not known which version has to be seen. */
  needed: () => number | undefined
  deadline: number
  end: (haveSeen: boolean) => void
}

const LOOK_EVERY_MS = 25
/** Beyond the lease, for the calls on the way. */
const MARGIN_MS = 2000
const TIDY_EVERY_MS = 60_000
/** A Lease that ended so long ago is nobody's any more. */
const KEPT_MS = 60_000

export class PeerServers {
  readonly #options: PeerServersOptions
  readonly #others = new Map<string, Other>()
  readonly #waiters = new Set<Waiter>()
  /** When the list that was taken last was asked for. */
  #asOf = Number.NEGATIVE_INFINITY
  #isLooking = false

  constructor(options: PeerServersOptions) {
    this.#options = options
  }

  /** Changes that wait. */
  get waiting(): number {
    return this.#waiters.size
  }

  /**
   * Resolves when whoever publishes from then on knows the change: all have seen it, or may not publish any more.
   * @returns false when that took longer than the lease of a dead one
   */
  haveSeen(needed: () => number | undefined): Promise<boolean> {
    const { clock, leaseMs } = this.#options
    return new Promise((resolve) => {
      const waiter: Waiter = {
        needed,
        deadline: clock.monotonic() + leaseMs + MARGIN_MS,
        end: (haveSeen) => {
          this.#waiters.delete(waiter)
          resolve(haveSeen)
        },
      }
      this.#waiters.add(waiter)
      if (!this.#isLooking) void this.#look()
    })
  }

  /** Takes away what crashed replicas have left, now and then. */
  async collectExpiredForever(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options
    for (;;) {
      await sleep(clock, TIDY_EVERY_MS, signal)
      if (signal.aborted) return
      try {
        await this.#tidy()
      } catch (error) {
        log.warn('Leases of facades that are gone stay for now', { error })
      }
    }
  }

  /** One reader for all that wait. */
  async #look(): Promise<void> {
    const { clock, log } = this.#options
    this.#isLooking = true
    let isFailing = false
    while (this.#waiters.size > 0) {
      try {
        await this.#answer([...this.#waiters])
      } catch (error) {
        if (!isFailing) log.warn('The Leases of other facades could not be read', { error })
        isFailing = true
      }
      const now = clock.monotonic()
      for (const waiter of [...this.#waiters]) if (now >= waiter.deadline) waiter.end(false)
      if (this.#waiters.size > 0) await sleep(clock, LOOK_EVERY_MS)
    }
    this.#isLooking = false
  }

  /** @param waiters whose changes were made before the list is asked for */
  async #answer(waiters: readonly Waiter[]): Promise<void> {
    await this.#read()
    for (const waiter of waiters) if (this.#isSeen(waiter.needed)) waiter.end(true)
  }

  async #read(): Promise<void> {
    const { name, records, clock } = this.#options
    const asked = clock.monotonic()
    const stored = await records.list()
    // Lists may overtake each other: an older one knows less.
    if (asked < this.#asOf) return
    this.#asOf = asked
    const now = clock.monotonic()
    const names = new Set(stored.map((record) => record.name))
    for (const gone of this.#others.keys()) if (!names.has(gone)) this.#others.delete(gone)
    for (const record of stored) {
      if (record.name === name) continue
      if (this.#others.get(record.name)?.record.version === record.version) continue
      this.#others.set(record.name, { record, seenAt: now })
    }
  }

  #isSeen(needed: Waiter['needed']): boolean {
    const living = [...this.#others.values()].filter((other) => !this.#hasExpired(other))
    if (living.length === 0) return true
    const version = needed()
    return version !== undefined && living.every(({ record }) => record.seen >= version)
  }

  #hasExpired({ record, seenAt }: Other, afterMs = 0): boolean {
    return this.#asOf - seenAt >= record.leaseMs + afterMs
  }

  async #tidy(): Promise<void> {
    const { records } = this.#options
    await this.#read()
    for (const other of [...this.#others.values()].filter((one) => this.#hasExpired(one, KEPT_MS))) {
      try {
        await records.remove(other.record.name, other.record.version)
      } catch (error) {
        if (!isApiError(error, 'Conflict', 'NotFound')) throw error
      }
    }
  }
}
