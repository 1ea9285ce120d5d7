import { expect, test } from 'vitest'
import { BILLING, sent } from '../../test/support/delivery-index-bed.ts'
import { FakeApi } from '../../test/support/fake-api.ts'
import { FakeClock, fixedRandom } from '../../test/support/fake-clock.ts'
import { LogApi, type LogKind } from '../../test/support/log-api.ts'
import { NO_RUNTIME_METRICS } from '../../test/support/no-metrics.ts'
import { type AcceptedEvent, deliverySegments } from '../apis/delivery-segment.ts'
import { sortableName } from '../apis/ids.ts'
import type { ResourceType } from '../apis/meta.ts'
import { shardOf } from '../ha/assignment.ts'
import {
  ApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
  type WatchEvent,
  type WatchSource,
} from '../kube/client.ts'
import { Organizations } from '../kube/organizations.ts'
import { withSharedWatches } from '../kube/shared-watch.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { acceptEvent } from '../webhooks/events/plan.ts'
import { KubernetesLogStore } from '../webhooks/log/kubernetes-store.ts'
import { ByteWindow } from '../webhooks/log/written-bytes.ts'
import { CredentialDirectory } from './credential-resource.ts'
import { OpenDeliveryIndex } from './delivery-index/delivery-index.ts'
import { Idempotency, IdempotencyCache } from './idempotent-requests.ts'
import { EndpointProgress } from './peers.ts'
import { ServerWatches } from './watches.ts'

/** Silence after which outcomes may have been deleted unseen, so that the index is read again. */
const LONG_MS = 101_000
const GONE = new ApiError('Gone', 'too old', { status: 410 })
const CLAIM = { kind: 'claim', shards: [shardOf(BILLING.uid)] } as const
const KEYS = { organization: 1000, all: 1000 }

const nothing = () => undefined
const isLogKind = (plural: string, log: LogApi): plural is LogKind => plural in log.kinds

/** The watches and the delivery index of a REST server, with one watch of each half of the log, as in production. */
class Bed {
  readonly clock = new FakeClock()
  readonly log = new LogApi()
  /** How often each segment that came by a watch was unpacked, by name. */
  readonly unpacked = new Map<string, number>()
  readonly cache = new IdempotencyCache(this.clock, KEYS)
  readonly written = new ByteWindow(this.clock)
  readonly organizations = new Organizations()
  readonly index: OpenDeliveryIndex
  readonly watches: ServerWatches
  readonly keys: Idempotency
  #made = 0

  constructor(maxSharedBytes = 1_000_000) {
    const others = new FakeApi()
    const { log, clock, cache, organizations } = this
    const watch = (...args: Parameters<WatchSource['watch']>) => {
      const [{ plural }, query, version, signal] = args
      return isLogKind(plural, log)
        ? this.#counting(log.kinds[plural].watch(args[0], query, version, signal))
        : others.watch(args[0], query, version, signal)
    }
    const api: ResourceReader & WatchSource = {
      get: (type, ref) => log.get(type, ref),
      list: (type: ResourceType, query, from) =>
        (isLogKind(type.plural, log) ? log.kinds[type.plural] : others).list(type, query, from),
      watch,
    }
    const random = fixedRandom(0)
    const say = { info: nothing, warn: nothing, error: nothing }
    const needs = { api, clock, random, log: say, metrics: NO_RUNTIME_METRICS }
    const store = new KubernetesLogStore({
      ...needs,
      resources: api as unknown as ResourceReader & ResourceWriter,
      namespace: 'org',
      watching: { ...needs, api: withSharedWatches(api, deliverySegments, maxSharedBytes) },
    })
    this.index = new OpenDeliveryIndex({ needs, store, maxEntries: 1000 })
    organizations.apply({ name: 'org', uid: 'uid-of-org', ownerEmails: [] })
    const stores = {
      organizations: new Organizations(),
      catalogue: new EventTypeStore(),
      directory: new EndpointDirectory(),
      credentials: new CredentialDirectory(),
      progress: new EndpointProgress({ seen: () => 0, onChange: nothing }),
      cache,
      written: this.written,
      log: store,
    }
    this.watches = new ServerWatches(stores, needs, this.index)
    this.keys = new Idempotency({
      cache,
      eventLog: { append: async (events) => this.#append(events) },
      organizations,
      hashKey: new Uint8Array(32),
      behind: () => this.watches.problemOf('idempotency keys'),
      clock,
      random,
      log: say,
    })
  }

  async start(): Promise<this> {
    this.index.start()
    this.watches.start()
    this.watches.readEndpoints()
    for (let turn = 0; turn < 20; turn += 1) await this.clock.elapse(100)
    await Promise.all([this.watches.ready, this.index.ready])
    return this
  }

  async stop(): Promise<void> {
    await Promise.all([this.watches.stop(), this.index.stop()])
  }

  get segmentWatches() {
    return this.log.kinds.deliverysegments
  }

  newId(): string {
    this.#made += 1
    return sortableName(this.clock.now(), Buffer.alloc(10, this.#made))
  }

  event(id: string, mark: { key?: string; fingerprint?: string } = {}): AcceptedEvent {
    const event = { name: id, namespace: 'org', type: 'a.b', dataText: '{}', happenedAt: 0, ...mark }
    return acceptEvent(event, [{ name: BILLING.name, uid: BILLING.uid }])
  }

  /** Another server appends. @returns the id of the event */
  appendElsewhere(name: string, mark?: { key?: string; fingerprint?: string }): string {
    const id = this.newId()
    this.log.accept(name, [this.event(id, mark)], this.clock.now())
    return id
  }

  /** @returns the id, and whether that is of an earlier request with the key */
  async publish(key: string): Promise<{ id: string; replayed: boolean }> {
    const request = { organization: 'org', operation: 'publish', key, asked: () => 'this' }
    const published = this.keys.once(request, async (mark) => {
      const id = this.newId()
      this.#append([this.event(id, mark)])
      return id
    })
    await this.clock.elapse(100)
    const { first, replayed } = await published
    return { id: first.id, replayed }
  }

  /** The ids of all deliveries, without their prefix. */
  async ids(): Promise<string[]> {
    const { deliveries } = await this.index.list([BILLING], { limit: 50 })
    return deliveries.map(({ deliveryId }) => deliveryId.slice('msg_'.length)).toSorted()
  }

  #append(events: readonly AcceptedEvent[]) {
    const segment = `own-${this.#made}`
    const version = this.log.accept(segment, events, this.clock.now())
    const appended = { segment, version, firstDelivery: 0 }
    this.index.appended(appended, events)
    this.watches.appended(version)
    return appended
  }

  async *#counting(stream: AsyncIterable<WatchEvent[]>): AsyncGenerator<WatchEvent[]> {
    for await (const events of stream) yield events.map((event) => this.#counted(event))
  }

  #counted(event: WatchEvent): WatchEvent {
    if (event.type === 'BOOKMARK' || event.type === 'DELETED') return event
    const object = this.#withCount(event.object)
    return { ...event, object, bytes: JSON.stringify(event.object).length }
  }

  #withCount(object: RawObject): RawObject {
    const { spec, metadata } = object as RawObject & { spec: { events?: string[] } }
    const { events } = spec
    if (!events) return object
    const count = () => this.unpacked.set(metadata.name, (this.unpacked.get(metadata.name) ?? 0) + 1)
    return {
      ...object,
      spec: {
        ...spec,
        get events() {
          count()
          return events
        },
      },
    } as RawObject
  }
}

test('the readers of events share one watch, and each segment is unpacked once', async () => {
  const bed = await new Bed().start()
  expect([bed.segmentWatches.watches, bed.segmentWatches.open]).toEqual([1, 1])
  const elsewhere = [1, 2, 3].map((number) =>
    bed.appendElsewhere(`elsewhere-${number}`, { key: `k${number}`, fingerprint: 'of-it' }),
  )
  await bed.clock.elapse(100)
  const { id } = await bed.publish('mine')
  expect(await bed.ids()).toEqual([...elsewhere, id].toSorted())
  for (const number of [1, 2, 3]) expect(bed.cache.find(`k${number}`)?.id).toBe(elsewhere[number - 1])
  expect(bed.written.total).toBeGreaterThan(0)
  expect([...bed.unpacked.values()]).toEqual([1, 1, 1, 1])
  expect([bed.segmentWatches.watches, bed.segmentWatches.open]).toEqual([1, 1])
  await bed.stop()
  expect(bed.segmentWatches.open).toBe(0)
})

test('a watch that ends is opened again once for both readers', async () => {
  const bed = await new Bed().start()
  for (const how of ['end', new ApiError('Unavailable', 'connection reset'), 'end'] as const) {
    const { watches } = bed.segmentWatches
    bed.segmentWatches.endWatches(how)
    await bed.clock.elapse(10_000)
    expect([bed.segmentWatches.watches, bed.segmentWatches.open]).toEqual([watches + 1, 1])
  }
  await bed.publish('mine')
  expect(await bed.ids()).toHaveLength(1)
  await bed.stop()
})

test.each([
  { what: 'while everything is shared', maxSharedBytes: 1_000_000 },
  { what: 'when little is shared', maxSharedBytes: 1 },
  { what: 'when what came meanwhile is no longer shared', maxSharedBytes: 1500 },
])(
  'the index is read again without a loss, and keys count all the time, $what',
  async ({ maxSharedBytes }) => {
    const bed = new Bed(maxSharedBytes)
    const ids = [bed.appendElsewhere('before', { key: 'old', fingerprint: 'of-it' })]
    await bed.start()
    ids.push((await bed.publish('first')).id)
    await bed.clock.elapse(LONG_MS)
    // Outcomes were written and deleted while they could not be watched.
    bed.log.tell('y-claim', [CLAIM], { writer: 'b', silently: true })
    bed.log.tell('x-outcome', [sent(101)], { writer: 'b', silently: true })
    bed.log.remove('outcomesegments', 'y-claim', true)
    let open: () => void = nothing
    bed.segmentWatches.gate = new Promise((resolve) => {
      open = resolve
    })
    bed.log.kinds.outcomesegments.endWatches(GONE)
    await bed.clock.elapse(1000)
    expect(bed.index.progress).toMatch(/^loading the events/)
    for (let number = 0; number < 10; number += 1) ids.push((await bed.publish(`meanwhile-${number}`)).id)
    for (let number = 0; number < 5; number += 1) ids.push(bed.appendElsewhere(`elsewhere-${number}`))
    expect(await bed.publish('first')).toEqual({ id: ids[1], replayed: true })
    open()
    bed.segmentWatches.gate = undefined
    ids.push((await bed.publish('during the list')).id)
    await bed.clock.elapse(10_000)
    expect(bed.index.progress).toBeUndefined()
    expect(bed.index.stats().restarts).toBe(1)
    ids.push((await bed.publish('after')).id, bed.appendElsewhere('last', { key: 'k', fingerprint: 'of-it' }))
    await bed.clock.elapse(100)
    expect(await bed.ids()).toEqual(ids.toSorted())
    expect(bed.cache.find('k')?.id).toBe(ids.at(-1))
    // A reader that begins again does not join the stream that its predecessor left, since that may be dead.
    expect(bed.segmentWatches.open).toBeLessThanOrEqual(2)
    bed.segmentWatches.endWatches()
    await bed.clock.elapse(10_000)
    expect(bed.segmentWatches.open).toBe(1)
    for (const [key, id] of [
      ['first', ids[1]],
      ['meanwhile-3', ids[5]],
      ['after', ids.at(-2)],
    ] as const)
      expect(await bed.publish(key)).toEqual({ id, replayed: true })
    await bed.stop()
    expect(bed.segmentWatches.open).toBe(0)
  },
)
