import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { calling, FaultyApi } from '../../../test/support/faulty-api.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { ApiError } from '../../kube/client.ts'
import { EndpointDirectory, EndpointStatusWriter } from './directory.ts'
import { EndpointHealth } from './health.ts'

function endpoint(version: number, uid = 'uid-1'): WebhookEndpoint {
  return webhookEndpoint.parse({
    metadata: { name: 'billing', namespace: 'acme', uid, resourceVersion: String(version), generation: 1 },
    spec: { url: 'https://receiver.example', eventTypes: ['*'] },
  })
}

function versionIn(directory: EndpointDirectory): string | undefined {
  return directory.get('acme', 'billing')?.endpoint.metadata.resourceVersion
}

test('a read that was under way when the endpoint went does not bring it back', () => {
  const directory = new EndpointDirectory()
  directory.apply(endpoint(5))
  directory.remove(endpoint(7))
  directory.applyRead(endpoint(6))
  expect(versionIn(directory)).toBeUndefined()
})

test('a read of one that was replaced under its name does not bring it back either', () => {
  const directory = new EndpointDirectory()
  directory.apply(endpoint(5))
  directory.apply(endpoint(8, 'uid-2'))
  directory.remove(endpoint(9, 'uid-2'))
  directory.applyRead(endpoint(6))
  expect(versionIn(directory)).toBeUndefined()
})

test('one that is made anew under the name is learnt', () => {
  const directory = new EndpointDirectory()
  directory.apply(endpoint(5))
  directory.remove(endpoint(7))
  directory.applyRead(endpoint(9, 'uid-2'))
  expect(versionIn(directory)).toBe('9')
})

test('what the watch shows again is there again, as after the store was set back', () => {
  const directory = new EndpointDirectory()
  directory.apply(endpoint(5))
  directory.remove(endpoint(7))
  directory.apply(endpoint(5))
  expect(versionIn(directory)).toBe('5')
  directory.applyRead(endpoint(6))
  expect(versionIn(directory)).toBe('6')
})

test('what a whole list does not show has gone, whatever the watch tells of the time before', () => {
  const directory = new EndpointDirectory()
  directory.apply(endpoint(5))
  directory.applyList(new Set(['uid-9']), 7)
  directory.apply(endpoint(6))
  expect(versionIn(directory)).toBeUndefined()
  directory.applyRead(endpoint(6))
  expect(versionIn(directory)).toBeUndefined()
  directory.apply(endpoint(8, 'uid-2'))
  expect(versionIn(directory)).toBe('8')
})

test('what a whole list shows, or is newer than it, stays', () => {
  const directory = new EndpointDirectory()
  directory.apply(endpoint(5))
  directory.applyList(new Set(['uid-1']), 7)
  expect(versionIn(directory)).toBe('5')
  directory.apply(endpoint(8))
  directory.applyList(new Set(), 7)
  expect(versionIn(directory)).toBe('8')
})

function keys(version: number) {
  return { endpointUid: 'uid-1', keys: [], version: String(version) }
}

function keysIn(directory: EndpointDirectory): string | undefined {
  directory.apply(endpoint(5))
  return directory.get('acme', 'billing')?.keys?.version
}

test('a read that was under way when the keys went does not bring them back', () => {
  const directory = new EndpointDirectory()
  directory.applyKeys('acme', 'billing', keys(6))
  directory.removeKeys('acme', 'billing', 8)
  directory.applyKeys('acme', 'billing', keys(7))
  expect(keysIn(directory)).toBeUndefined()
})

test('keys that were made anew are there, and the late end of those before takes none of them', () => {
  const directory = new EndpointDirectory()
  directory.applyKeys('acme', 'billing', keys(6))
  directory.removeKeys('acme', 'billing', 8)
  directory.applyKeys('acme', 'billing', keys(9))
  directory.removeKeys('acme', 'billing', 8)
  expect(keysIn(directory)).toBe('9')
})

describe('a status that the API server rejects', () => {
  const REF = { namespace: 'acme', name: 'billing' }
  const isStatus = calling('patch', webhookEndpoints)

  async function bed(status: object = {}) {
    const clock = new FakeClock()
    const store = new MemoryStore(() => clock.now())
    const api = new FaultyApi(store)
    const spec = { url: 'https://receiver.example', eventTypes: ['*'] }
    await store.create(webhookEndpoints, { metadata: REF, spec })
    const directory = new EndpointDirectory()
    const show = (raw: object) => directory.apply(webhookEndpoint.parse(raw))
    show(await store.patch(webhookEndpoints, REF, { status }, { subresource: 'status' }))
    const logged: [event: string, endpoint: unknown, cause: string][] = []
    const note = (event: string, _message: string, fields: Record<string, unknown> = {}) =>
      void logged.push([event, fields.endpoint, String(fields.error)])
    const statuses = new EndpointStatusWriter(api, directory, { info: note, warn: note, error: note })
    const health = new EndpointHealth(statuses, clock)
    const view = () => {
      const found = directory.get('acme', 'billing')
      if (!found) throw new Error('the endpoint is unknown')
      return found
    }
    const identity = () => ({ ...REF, uid: view().endpoint.metadata.uid })
    return { api, store, health, statuses, logged, show, view, identity }
  }

  const REJECTED = { before: new ApiError('Invalid', 'spec.url: Invalid value', { status: 422 }) }
  const LINE = ['endpoint_status_rejected', 'billing', 'ApiError: spec.url: Invalid value']

  test('is logged once for each version of the endpoint, and keeps no delivery from ending', async () => {
    const { api, store, health, logged, show, view, identity } = await bed({ consecutiveFailures: 3 })
    const recover = api.fail(isStatus, REJECTED, 1000)
    const ended: string[] = []
    const exhausted = async (id: string) =>
      await health.exhausted(identity(), id, async () => void ended.push(id))
    await exhausted('msg_1')
    await exhausted('msg_2')
    await health.succeeded(identity(), view())
    expect(ended).toEqual(['msg_1', 'msg_2'])
    expect(logged).toEqual([LINE])
    show(await store.patch(webhookEndpoints, REF, { spec: { concurrency: 2 } }))
    await exhausted('msg_3')
    expect(logged).toEqual([LINE, LINE])
    recover()
    await exhausted('msg_4')
    expect(view().endpoint.status).toMatchObject({ consecutiveFailures: 4, lastCounted: 'msg_4' })
    expect(logged).toHaveLength(2)
  })

  test('is logged for every writer, but not for a deleted endpoint', async () => {
    const { api, store, statuses, logged, view } = await bed()
    api.fail(isStatus, REJECTED)
    await statuses.write(view(), () => ({ observedGeneration: 1 }))
    expect(logged).toEqual([LINE])
    await store.delete(webhookEndpoints, REF)
    await statuses.write(view(), () => ({ observedGeneration: 1 }))
    expect(logged).toEqual([LINE])
  })
})
