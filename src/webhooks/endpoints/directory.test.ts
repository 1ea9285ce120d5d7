import { expect, test } from 'vitest'
import { type WebhookEndpoint, webhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { EndpointDirectory } from './directory.ts'

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
