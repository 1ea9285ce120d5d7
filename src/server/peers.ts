/**
 * This replica of the facade among the others: its Lease says that it lives and what it has seen of endpoints. Others wait
 * for it with every change of an endpoint, until its lease has ended; so it publishes only while it is waited for, and only
 * on what it has read since they began to.
 */

import { LeaseValidity } from '../ha/shards-lease.ts'
import { InterruptibleSleep } from '../ha/wakeable-pause.ts'
import { isApiError } from '../kube/client.ts'
import type { Watch } from '../kube/watch.ts'
import type { Clock } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import { sleep } from '../lib/sleep.ts'
import type { PeerRecords, StoredPeerRecord } from './facade-records.ts'

export type ReplicaHeartbeatOptions = {
  name: string
  /** Of this start of it. */
  session: string
  leaseMs: number
  records: PeerRecords
  /** Of endpoints. */
  watch: Pick<Watch, 'version' | 'isListed'>
  /** Begins to read endpoints, or begins anew: at once nothing counts as read any more. */
  read: () => void
  /** Why it may not be known which endpoints there are, in words; undefined while it is. */
  behind: () => string | undefined
  clock: Clock
  log: Logger
}

/** No more than ten writes a second. */
const BETWEEN_WRITES_MS = 100
const AGAIN_MS = 500
const LEAVE_WITHIN_MS = 2000

export class ReplicaHeartbeat {
  readonly #options: ReplicaHeartbeatOptions
  readonly #lease: LeaseValidity
  readonly #pause: InterruptibleSleep
  readonly #stopping = new AbortController()
  #running: Promise<void> = Promise.resolve()
  /** Version of the own record, as far as it is known. */
  #stored: string | undefined
  /** A write ended without an answer, or was told that the record is another one. */
  #isInDoubt = true
  /** There is something to tell. */
  #isNews = true
  #wasRead = false
  /** What is read of endpoints was asked for when others waited for this replica already. */
  #hasJoined = false
  #isWithdrawn = false
  #replaced = false
  #isFailing = false
  /** Since when endpoints could not be followed, monotonic. */
  #behindSince: number | undefined

  constructor(options: ReplicaHeartbeatOptions) {
    const { clock, leaseMs } = options
    this.#options = options
    // Clocks may differ in their rate, and calls take their time.
    this.#lease = new LeaseValidity(clock, (leaseMs * 2) / 3)
    this.#pause = new InterruptibleSleep(clock)
  }

  start(): void {
    this.#running = this.#run(this.#stopping.signal)
  }

  /** Something was seen that others may wait for. */
  changed(): void {
    this.#isNews = true
    this.#pause.wake()
  }

  /** Whether the others wait for what this replica has not seen. */
  get isWaitedFor(): boolean {
    return !this.#replaced && this.#lease.isValid
  }

  /** Milliseconds since its lease was renewed. */
  get leaseAgeMs(): number {
    return this.#lease.ageMs
  }

  /** Why nothing may be decided on what is known of endpoints, in words; undefined while it may. */
  get problem(): string | undefined {
    if (this.#replaced) return `another process has the name ${this.#options.name}`
    if (!this.#lease.isValid) return 'its Lease could not be renewed'
    if (!this.#hasJoined || !this.#options.watch.isListed) return 'endpoints are being read'
    return undefined
  }

  /** Nothing is published any more: nobody has to wait for this replica. */
  async leave(): Promise<void> {
    this.#stopping.abort()
    const { clock, log } = this.#options
    const over = new AbortController()
    const left = this.#running
      .then(() => this.#withdraw())
      .catch((error: unknown) => log.warn('The Lease of this facade stays until it has ended', { error }))
    await Promise.race([left, sleep(clock, LEAVE_WITHIN_MS, over.signal)])
    over.abort()
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { leaseMs, behind, clock } = this.#options
    while (!signal.aborted && !this.#replaced) {
      await this.#round()
      await sleep(clock, this.#isFailing ? AGAIN_MS : BETWEEN_WRITES_MS, signal)
      // Until endpoints are read, and that was told, there is something to look after.
      if (this.#wasRead && behind() === undefined && !this.#isFailing)
        await this.#pause.sleep((leaseMs * 2) / 9 - BETWEEN_WRITES_MS, signal)
    }
  }

  async #round(): Promise<void> {
    try {
      if (this.#isBehindForLong()) await this.#withdraw()
      else if (this.#hasToWrite()) await this.#write()
      this.#isFailing = false
    } catch (error) {
      this.#isInDoubt = true
      this.#isNews = true
      if (!this.#isFailing) this.#options.log.warn('The Lease of this facade could not be written', { error })
      this.#isFailing = true
    }
  }

  /** It publishes nothing, so the others need not wait for it for as long as it goes on renewing. */
  #isBehindForLong(): boolean {
    const { clock, leaseMs, behind } = this.#options
    if (behind() === undefined) {
      this.#behindSince = undefined
      return false
    }
    // Nothing was asked for yet.
    if (!this.#hasJoined) return this.#isWithdrawn
    this.#behindSince ??= clock.monotonic()
    return clock.monotonic() - this.#behindSince >= leaseMs
  }

  #hasToWrite(): boolean {
    const { isListed } = this.#options.watch
    // A list has ended, which others may wait for.
    if (isListed && !this.#wasRead) this.#isNews = true
    this.#wasRead = isListed
    return this.#isNews || this.#lease.ageMs >= (this.#options.leaseMs * 2) / 9 - BETWEEN_WRITES_MS
  }

  async #write(): Promise<void> {
    const { name, session, leaseMs, records, watch, read } = this.#options
    if (this.#isInDoubt && !(await this.#find())) return
    this.#isNews = false
    const asked = this.#lease.moment()
    this.#isInDoubt = true
    const isNew = this.#stored === undefined
    this.#stored = await records.write({ name, session, leaseMs, seen: watch.version }, this.#stored)
    this.#isInDoubt = false
    // Somebody may have taken this replica for gone, and not have waited for it.
    if (isNew || !this.#lease.isValid) this.#hasJoined = false
    this.#lease.renewed(asked)
    if (this.#hasJoined) return
    read()
    this.#wasRead = false
    this.#behindSince = undefined
    this.#isWithdrawn = false
    this.#hasJoined = true
  }

  /** Looks for the own record. @returns false when it is another process's by now */
  async #find(): Promise<boolean> {
    const { name, session, records, log } = this.#options
    const own: StoredPeerRecord | undefined = (await records.list()).find((record) => record.name === name)
    const isOther = own !== undefined && own.session !== session
    // At the start it is the predecessor's, and taken over.
    if (isOther && this.#lease.ageMs !== Number.POSITIVE_INFINITY) {
      this.#replaced = true
      log.error('Another process has the name of this one, which publishes nothing any more', { name })
      return false
    }
    this.#stored = own?.version
    if (isOther) this.#hasJoined = false
    return true
  }

  async #withdraw(): Promise<void> {
    const { name, records } = this.#options
    this.#hasJoined = false
    this.#isWithdrawn = true
    if (this.#stored === undefined || this.#replaced) return
    const version = this.#stored
    this.#stored = undefined
    this.#isInDoubt = true
    this.#isNews = true
    try {
      await records.remove(name, version)
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'NotFound')) throw error
    }
  }
}
