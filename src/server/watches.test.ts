import { expect, test } from 'vitest'
import { event } from '../../test/support/delivery-index-bed.ts'
import { FakeApi } from '../../test/support/fake-api.ts'
import { FakeClock, fixedRandom } from '../../test/support/fake-clock.ts'
import type { ResourceType } from '../apis/meta.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import { Organizations } from '../kube/organizations.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { segmentSpec } from '../webhooks/log/codec.ts'
import { KubernetesLogStore } from '../webhooks/log/kubernetes-store.ts'
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

async function bed() {
  const clock = new FakeClock()
  const kinds = new Map(PLURALS.map((plural) => [plural as string, new FakeApi()]))
  const segments = kinds.get('deliverysegments') ?? new FakeApi()
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
  }
  const needs = {
    api,
    clock,
    random: fixedRandom(0),
    log: { info: say, warn: say, error: say },
    metrics: { reconciled: () => undefined, watchRestarted: () => undefined },
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
  return { clock, segments, namespaces, organizations, watches, others, said, opened }
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
