import { expect, test } from 'vitest'
import { ENABLE_ANNOTATION, type WebhookEndpoint, webhookEndpoint } from '../apis/webhook-endpoint.ts'
import { EndpointProgress } from './peers.ts'

type Fields = { generation?: number; annotations?: Record<string, string>; deletionTimestamp?: string }

function endpoint(version: number, fields: Fields = {}): WebhookEndpoint {
  return webhookEndpoint.parse({
    apiVersion: 'davit.dev/v1alpha1',
    kind: 'WebhookEndpoint',
    metadata: {
      name: 'billing',
      namespace: 'acme',
      uid: 'uid-1',
      resourceVersion: String(version),
      generation: 1,
      ...fields,
    },
    spec: { url: 'https://receiver.example/hooks', eventTypes: ['*'] },
  })
}

function bed() {
  const at = { seen: 0, changes: 0 }
  const progress = new EndpointProgress({ seen: () => at.seen, onChange: () => (at.changes += 1) })
  const show = (version: number, fields?: Fields) => {
    progress.applied(endpoint(version, fields))
    at.seen = version
  }
  return { at, progress, show }
}

test('status writes of controllers are nothing to tell, and whoever repeats a change does not wait for them', () => {
  const { at, progress, show } = bed()
  show(100)
  show(105)
  show(110)
  expect(at.changes).toBe(1)
  expect(progress.versionOf(endpoint(110))).toBe(100)
})

test.each<[string, Fields]>([
  ['its spec', { generation: 2 }],
  ['a request by annotation', { annotations: { [ENABLE_ANNOTATION]: '2026-01-31T12:00:00Z' } }],
  ['that it is being deleted', { deletionTimestamp: '2026-01-31T12:00:00Z' }],
])('a change of what it gets is told, and is waited for: %s', (_what, fields) => {
  const { at, progress, show } = bed()
  show(100)
  // Written here, not shown yet.
  expect(progress.versionOf(endpoint(105, fields))).toBe(105)
  show(105, fields)
  expect(at.changes).toBe(2)
  expect(progress.versionOf(endpoint(108, fields))).toBe(108)
  show(108, fields)
  expect(progress.versionOf(endpoint(108, fields))).toBe(105)
})

test('its end is known at the version of the event; from a list at the version of that', () => {
  const { at, progress, show } = bed()
  show(100)
  expect(progress.removalOf('uid-1')).toBeUndefined()
  progress.deleted(endpoint(100), 107)
  expect([progress.removalOf('uid-1'), at.changes]).toEqual([107, 2])
  const listed = bed()
  listed.show(100)
  listed.progress.deleted(endpoint(100))
  expect(listed.progress.removalOf('uid-1')).toBeUndefined()
  listed.at.seen = 120
  expect(listed.progress.removalOf('uid-1')).toBe(120)
  listed.at.seen = 130
  expect(listed.progress.removalOf('uid-1')).toBe(120)
})
