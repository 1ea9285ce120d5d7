import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { matchEndpoints, type Subscriber } from './plan.ts'

type Given = { name: string; uid: string; eventTypes: readonly string[]; enabled: boolean; deleting: boolean }

const endpoint: WebhookEndpoint = {
  metadata: { name: 'billing', namespace: 'acme', uid: 'uid-1', resourceVersion: '7' },
  spec: {
    url: 'https://billing.example.com/hooks',
    eventTypes: ['environment.started'],
    ordered: false,
    state: 'enabled',
    concurrency: 8,
  },
}

function subscriberOf({ name, uid, eventTypes, enabled, deleting }: Given): Subscriber {
  const deletion = deleting ? { deletionTimestamp: '2026-01-31T12:00:00Z' } : {}
  const metadata = { ...endpoint.metadata, name, uid, ...deletion }
  return { endpoint: { metadata, spec: { ...endpoint.spec, eventTypes: [...eventTypes] } }, enabled }
}

function subscriber(name: string, over: Partial<Given> = {}): Subscriber {
  const defaults = { uid: `uid-${name}`, eventTypes: ['*'], enabled: true, deleting: false }
  return subscriberOf({ name, ...defaults, ...over })
}

test.each([
  { given: ['environment.started'], type: 'environment.started', want: true },
  { given: ['environment.stopped'], type: 'environment.started', want: false },
  { given: ['environment.stopped', 'environment.started'], type: 'environment.started', want: true },
  { given: ['*'], type: 'environment.started', want: true },
  { given: ['*'], type: 'made.later', want: true },
  { given: ['*'], type: 'webhook.endpoint.disabled', want: true },
  { given: ['environment'], type: 'environment.started', want: false },
  { given: ['environment.started.soon'], type: 'environment.started', want: false },
  { given: ['environment.*'], type: 'environment.started', want: false },
  { given: ['Environment.Started'], type: 'environment.started', want: false },
])('an endpoint subscribed to $given gets $type: $want', ({ given, type, want }) => {
  expect(matchEndpoints(type, [subscriber('billing', { eventTypes: given })])).toHaveLength(want ? 1 : 0)
})

test.each([
  { given: { enabled: false }, why: 'disabled' },
  { given: { deleting: true }, why: 'being deleted' },
])('an endpoint that is $why gets nothing', ({ given }) => {
  expect(matchEndpoints('environment.started', [subscriber('billing', given)])).toEqual([])
})

const endpoints: fc.Arbitrary<Given[]> = fc.uniqueArray(
  fc.record({
    name: fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,6}$/),
    uid: fc.uuid(),
    eventTypes: fc.oneof(
      fc.constant(['*']),
      fc.uniqueArray(fc.constantFrom('a.b', 'a.c', 'b'), { minLength: 1 }),
    ),
    enabled: fc.boolean(),
    deleting: fc.boolean(),
  }),
  { selector: ({ name }) => name },
)

test('of any endpoints, exactly the enabled and subscribed ones get it, once each, in the order of their names', () => {
  fc.assert(
    fc.property(endpoints, fc.constantFrom('a.b', 'a.c', 'b', 'new'), (given, type) => {
      const subscribers = given.map(subscriberOf)
      const before = structuredClone(subscribers)
      const want = given
        .filter((e) => e.enabled && !e.deleting && e.eventTypes.some((t) => t === '*' || t === type))
        .map(({ name }) => name)
      want.sort()
      expect(matchEndpoints(type, subscribers.values()).map(({ name }) => name)).toEqual(want)
      expect(subscribers).toEqual(before)
    }),
  )
})

test('a subscriber is what matching needs of an endpoint', () => {
  expect(matchEndpoints('environment.started', [{ endpoint, enabled: true }])).toEqual([
    { name: 'billing', uid: 'uid-1' },
  ])
})

test('an endpoint with a deletionTimestamp is being deleted', () => {
  const metadata = { ...endpoint.metadata, deletionTimestamp: '2026-01-31T12:00:00Z' }
  const deleted = { endpoint: { ...endpoint, metadata }, enabled: true }
  expect(matchEndpoints('environment.started', [deleted])).toEqual([])
})
