/** Replicas of the REST server with a shared log in memory, of which each sees the delivered part. */

import { createHash } from 'node:crypto'
import type { AcceptedEvent } from '../../src/apis/delivery-segment.ts'
import { sortableName } from '../../src/apis/ids.ts'
import { ApiError } from '../../src/kube/client.ts'
import { Organizations } from '../../src/kube/organizations.ts'
import { Idempotency, IdempotencyCache } from '../../src/server/idempotent-requests.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import { type KeyRecord, keptLine, keyRecordOf } from '../../src/webhooks/log/idempotency-keys.ts'
import type { Appended } from '../../src/webhooks/log/store.ts'
import type { FakeClock } from './fake-clock.ts'

const nothing = () => undefined

/** The log that all replicas share. */
export class SharedLog {
  /** The current entries. */
  readonly #places = new Map<number, AcceptedEvent>()
  /** Every entry that ever existed: a watch reports deleted ones as well. */
  readonly #history = new Map<number, AcceptedEvent>()
  version = 100
  /** Whether appends are answered and never shown. */
  isLost = false
  /** Thrown by the next appends, before or after their effect. */
  readonly faults: ('before' | 'after')[] = []

  async append(events: readonly AcceptedEvent[]): Promise<Appended> {
    const fault = this.faults.shift()
    if (fault === 'before') throw new ApiError('Unavailable', 'no answer')
    if (!this.isLost) for (const event of events) this.#add(event)
    if (fault === 'after') throw new ApiError('Unavailable', 'no answer')
    return { segment: `s${this.version}`, version: this.version, firstDelivery: 0 }
  }

  /** Key records of the current entries. */
  stored(): KeyRecord[] {
    return recordsOf(this.#places)
  }

  /** Key records that a watch delivers between two versions, in the log's order. */
  recordsBetween(from: number, to: number): KeyRecord[] {
    return recordsOf([...this.#history].filter(([version]) => version > from && version <= to))
  }

  /** Simulates retention: deletes an entry and appends its key records again. */
  compact(nth: number): void {
    const version = [...this.#places.keys()][nth % Math.max(1, this.#places.size)]
    if (version === undefined) return
    const [record] = this.recordsBetween(version - 1, version)
    if (record) this.#add(keptLine(record))
    this.#places.delete(version)
  }

  #add(event: AcceptedEvent): void {
    this.version += 1
    this.#places.set(this.version, event)
    this.#history.set(this.version, event)
  }
}

function recordsOf(places: Iterable<[number, AcceptedEvent]>): KeyRecord[] {
  return [...places].flatMap(([version, { event, targets }]) => {
    const appended = { position: { version, index: 0 }, deliveries: targets.length, firstDelivery: 0 }
    return keyRecordOf(event, appended) ?? []
  })
}

export class Replica {
  readonly book: IdempotencyCache
  readonly keys: Idempotency
  behind: string | undefined
  readonly organizations = new Organizations()
  #log: SharedLog
  #seen = 0
  #made = 0

  /** @param shuffled order in which the existing log is read */
  constructor(log: SharedLog, clock: FakeClock, limits = { organization: 1000, all: 1000 }, number = 1) {
    this.#log = log
    const random = {
      fraction: () => 0,
      bytes: (count: number) => {
        this.#made += 1
        return createHash('sha256').update(`${number} ${this.#made}`).digest().subarray(0, count)
      },
    }
    this.book = new IdempotencyCache(clock, limits)
    for (const name of ['acme', 'globex']) this.organize(name)
    this.keys = new Idempotency({
      cache: this.book,
      eventLog: log,
      organizations: this.organizations,
      hashKey: new Uint8Array(32),
      behind: () => this.behind,
      clock,
      random,
      log: { info: nothing, warn: nothing, error: nothing },
    })
    this.newId = () => sortableName(clock.now(), random.bytes(10))
  }

  newId: () => string

  /** Shows a namespace, which is another organization if its UID is another one. */
  organize(name: string, uid = `uid-of-${name}`): void {
    this.organizations.apply({ name, uid, ownerEmails: [] })
  }

  /** Reads the log like a list does, in the order of `by`. */
  read(by: (record: KeyRecord) => number = () => 0): this {
    const records = this.#log.stored().toSorted((a, b) => by(a) - by(b))
    for (const record of records) this.book.apply(record)
    this.#seen = this.#log.version
    return this
  }

  /** Delivers the next `places` entries. */
  show(places = Number.POSITIVE_INFINITY): void {
    const to = Math.min(this.#log.version, this.#seen + places)
    for (const record of this.#log.recordsBetween(this.#seen, to)) this.book.apply(record)
    this.#seen = to
  }

  publish(key: string, asked = 'this', organization = 'acme') {
    return this.keys.once({ organization, operation: 'publish', key, asked: () => asked }, async (mark) => {
      const id = this.newId()
      const event = { name: id, namespace: organization, type: 'a.b', dataText: '{}', happenedAt: 0, ...mark }
      await this.#log.append([acceptEvent(event, [{ name: 'billing', uid: 'uid-1' }])])
      return id
    })
  }

  /** @param rejected numbers of parts that are left out @param size parts in each append */
  publishAll(key: string, parts: number, { rejected = [] as number[], size = 2, asked = 'these' } = {}) {
    const request = { organization: 'acme', operation: 'publish-batch', key, asked: () => asked, parts }
    return this.keys.each(request, async (missing, appended) => {
      const made = missing
        .filter(({ part }) => !rejected.includes(part))
        .map(({ part, mark }) => {
          const event = {
            name: this.newId(),
            namespace: 'acme',
            type: 'a.b',
            dataText: `${part}`,
            happenedAt: 0,
            ...mark,
          }
          return { part, accepted: acceptEvent(event, [{ name: 'billing', uid: 'uid-1' }]) }
        })
      for (let from = 0; from < made.length; from += size) {
        const group = made.slice(from, from + size)
        await this.#log.append(group.map(({ accepted }) => accepted))
        for (const { part, accepted } of group) appended(part, accepted.event.id)
      }
    })
  }

  make(key: string, act: (id: string) => Promise<string>, check?: () => Promise<void>) {
    const request = { organization: 'acme', operation: 'create', key, asked: () => 'this' }
    return this.keys.around(request, { act, ...(check ? { check } : {}) })
  }
}
