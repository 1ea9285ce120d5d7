import { expect, test } from 'vitest'
import { event } from '../../test/support/delivery-index-bed.ts'
import { FakeApi } from '../../test/support/fake-api.ts'
import { FakeClock, fixedRandom } from '../../test/support/fake-clock.ts'
import { NO_RUNTIME_METRICS } from '../../test/support/no-metrics.ts'
import { sortableName } from '../apis/ids.ts'
import type { ResourceType } from '../apis/meta.ts'
import { ApiError, type ResourceReader, type ResourceWriter, type WatchSource } from '../kube/client.ts'
import { Organizations } from '../kube/organizations.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { segmentLines, segmentSpec } from '../webhooks/log/codec.ts'
import { KubernetesLogStore } from '../webhooks/log/kubernetes-store.ts'
import { segmentBytes } from '../webhooks/log/reader.ts'
import { ByteWindow, writtenBy } from '../webhooks/log/written-bytes.ts'
import { CredentialDirectory } from './credential-resource.ts'
import { IdempotencyCache } from './idempotent-requests.ts'
import { EndpointProgress } from './peers.ts'
import { ServerWatches } from './watches.ts'

const PLURALS = [
  'namespaces',
  'eventtypes',
  'webhookendpoints',
  'registrycredentials',
  'deliverysegments',
] as const

const MINUTE_MS = 60_000

/** @param prepare called before anything is read */
async function bed(prepare: (segments: FakeApi, clock: FakeClock) => void = () => undefined) {
  const clock = new FakeClock()
  const kinds = new Map(PLURALS.map((plural) => [plural as string, new FakeApi()]))
  const segments = kinds.get('deliverysegments') ?? new FakeApi()
  prepare(segments, clock)
  const of = ({ plural }: ResourceType) => kinds.get(plural) ?? new FakeApi()
  const api: ResourceReader & WatchSource = {
    get: (type) => of(type).get(),
    list: (type, query, from) => of(type).list(type, query, from),
    watch: (type, query, version, signal) => of(type).watch(type, query, version, signal),
  }
  const said: string[] = []
  const say = (_event: string, message: string) => void said.push(message)
  const others = {
    reopened: 0,
    reopen() {
      this.reopened += 1
    },
  }
  const organizations = new Organizations()
  const stores = {
    organizations,
    catalogue: new EventTypeStore(),
    directory: new EndpointDirectory(),
    credentials: new CredentialDirectory(),
    progress: new EndpointProgress({ seen: () => 0, onChange: () => undefined }),
    cache: new IdempotencyCache(clock, { organization: 10, all: 10 }),
    written: new ByteWindow(clock),
  }
  const needs = {
    api,
    clock,
    random: fixedRandom(0),
    log: { info: say, warn: say, error: say },
    metrics: NO_RUNTIME_METRICS,
  }
  const resources = api as unknown as ResourceReader & ResourceWriter
  const log = new KubernetesLogStore({ ...needs, resources, namespace: 'org', watching: needs })
  const watches = new ServerWatches({ ...stores, log }, needs, others)
  watches.start()
  watches.readEndpoints()
  await clock.elapse(10)
  await watches.ready
  const opened = () => [...kinds.values()].map((kind) => kind.watches)
  const namespaces = kinds.get('namespaces') ?? new FakeApi()
  const { cache, written } = stores
  return { clock, segments, namespaces, organizations, cache, watches, written, others, said, opened }
}

test('watches that do not show what was appended are opened anew, and nothing is decided on them meanwhile', async () => {
  const { clock, segments, watches, others, said, opened } = await bed()
  expect(watches.problems()).toEqual([])
  // The stream is dead: it hears of nothing any more, and nobody says so.
  segments.put('segment', { silently: true, fields: { spec: segmentSpec([event(1)], 'test', 0) } })
  watches.appended(segments.version)
  await clock.elapse(1500)
  expect([watches.problems(), opened()]).toEqual([[], [1, 1, 1, 1, 1]])
  await clock.elapse(1000)
  const behind = 'the server has not caught up with the delivery log'
  expect(watches.problemOf('endpoints')).toBe(behind)
  expect(watches.problemOf('idempotency keys')).toBe(behind)
  expect(watches.problems()).toEqual([behind])
  expect([opened(), others.reopened]).toEqual([[2, 2, 2, 2, 2], 1])
  expect(said).toContain('delivery log watch is behind own writes; reopening watches')
  const [missed] = [...segments.objects.values()]
  if (missed) segments.tell({ type: 'ADDED', object: missed })
  await clock.elapse(100)
  expect(watches.problems()).toEqual([])
  await clock.elapse(10_000)
  expect(opened()).toEqual([2, 2, 2, 2, 2])
  await watches.stop()
})

test('what came while watches were dead is known before anything is decided again', async () => {
  const { clock, segments, namespaces, organizations, watches } = await bed()
  segments.put('segment', { silently: true, fields: { spec: segmentSpec([event(1)], 'test', 0) } })
  const labels = { 'davit.dev/organization': 'true' }
  namespaces.put('acme', { silently: true, fields: { metadata: { name: 'acme', labels } } })
  watches.appended(segments.version)
  const [missed] = [...segments.objects.values()]
  await clock.elapse(2000)
  // The watch of the log comes first.
  if (missed) segments.tell({ type: 'ADDED', object: missed })
  await clock.elapse(500)
  expect(watches.problems()).toEqual([])
  expect(organizations.get('acme')).toBeDefined()
  await watches.stop()
})

test('a watch that shows what was appended is left alone', async () => {
  const { clock, segments, watches, opened } = await bed()
  segments.put('segment', { fields: { spec: segmentSpec([event(1)], 'test', 0) } })
  watches.appended(segments.version)
  await clock.elapse(10_000)
  expect([watches.problems(), opened()]).toEqual([[], [1, 1, 1, 1, 1]])
  await watches.stop()
})

const HOUR = 60 * 60_000

/** A segment with an event under a key, by a clock that is ahead by so much. */
function keyed(segments: FakeApi, at: number, key: string, aheadMs = 0): void {
  const name = sortableName(at + aheadMs, new Uint8Array(10))
  const used = { ...event(1).event, id: name, key, fingerprint: 'of-it' }
  const fields = { spec: segmentSpec([{ event: used, targets: [] }], 'test', at + aheadMs) }
  const creationTimestamp = new Date(at + aheadMs).toISOString()
  segments.put(name, { silently: true, creationTimestamp, fields })
}

test.each([
  { usedAgo: 23 * HOUR, isKnown: true },
  { usedAgo: 26 * HOUR, isKnown: false },
])(
  'a key of the future that was used $usedAgo ms ago is known after a start: $isKnown',
  async ({ usedAgo, isKnown }) => {
    const { cache, watches } = await bed((segments, clock) => {
      const now = clock.now()
      keyed(segments, now - usedAgo, 'ahead', 365 * 24 * HOUR)
      // The clock was set right.
      keyed(segments, now - usedAgo + HOUR / 2, 'next')
      keyed(segments, now - HOUR, 'last')
    })
    expect(['ahead', 'last'].map((key) => cache.find(key) !== undefined)).toEqual([isKnown, true])
    await watches.stop()
  },
)

test('a key that was used again after a first use by a clock that was ahead stands for its later request', async () => {
  const { cache, watches } = await bed((segments, clock) => {
    const now = clock.now()
    keyed(segments, now - 26 * HOUR, 'key', 365 * 24 * HOUR)
    keyed(segments, now - 25 * HOUR, 'next')
    keyed(segments, now - HOUR, 'key')
  })
  expect(cache.find('key')).toMatchObject({ position: { version: 103 } })
  await watches.stop()
})

test('what any process appends is counted as written once, also what was read at the start, as far as it is recent', async () => {
  const specAt = (ms: number) => segmentSpec([event(1)], 'another server', ms)
  const { clock, segments, watches, written } = await bed((log, fake) => {
    for (const minutes of [11, 9, 1])
      log.put(`before-${minutes}`, { fields: { spec: specAt(fake.now() - minutes * MINUTE_MS) } })
  })
  const spec = specAt(clock.now())
  const one = [...writtenBy(segmentLines([event(1)]), segmentBytes({ spec } as never)).values()][0] ?? 0
  expect(one).toBeGreaterThan(500)
  expect(written.total).toBe(2 * one)
  segments.put('new', { fields: { spec }, twice: true })
  await clock.elapse(10)
  expect([written.bytesOf('org'), written.total]).toEqual([3 * one, 3 * one])
  segments.remove('new')
  segments.endWatches(new ApiError('Gone', 'expired', { status: 410 }))
  await clock.elapse(5000)
  expect(watches.problems()).toEqual([])
  expect(written.total).toBe(3 * one)
  await watches.stop()
})
