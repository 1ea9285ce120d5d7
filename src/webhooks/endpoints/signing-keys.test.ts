import { expect, test } from 'vitest'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { secrets } from '../../apis/core-kinds.ts'
import { NO_ENDPOINT_YET, webhookEndpoint } from '../../apis/webhook-endpoint.ts'
import type { SigningKey } from '../sender/key-rotation.ts'
import { EndpointDirectory, signingSecretName } from './directory.ts'
import { keysObject, readKeys, SigningKeyStore } from './signing-keys.ts'

const SYSTEM = 'davit-system'
const NOW = Date.parse('2026-01-31T12:00:00.000Z')
const MINUTE = 60_000

const endpoint = webhookEndpoint.parse({
  metadata: { name: 'billing', namespace: 'acme', uid: 'uid-1', resourceVersion: '1' },
  spec: { url: 'https://receiver.example', eventTypes: ['*'] },
})

function key(letter: string, ageMs = 0): SigningKey {
  return { secret: `whsec_${letter.repeat(32)}`, createdAt: new Date(NOW - ageMs).toISOString() }
}

function bed() {
  let now = NOW
  const resources = new MemoryStore(() => now)
  const directory = new EndpointDirectory()
  const store = new SigningKeyStore(resources, directory, SYSTEM)
  /** Somebody else writes keys when the newest is made, or a restore does later, and the watch shows them. */
  const given = async (owner: { name?: string; uid: string }, keys: SigningKey[], restoredAt?: number) => {
    const { name = 'billing', uid } = owner
    now = restoredAt ?? Date.parse(keys[0]?.createdAt ?? '')
    const raw = await resources.create(secrets, keysObject(SYSTEM, { namespace: 'acme', name, uid }, keys))
    const held = readKeys(raw)
    directory.applyKeys(held.namespace, held.endpoint, held.keys)
  }
  const stored = async () => {
    const { keys } = readKeys(
      await resources.get(secrets, { namespace: SYSTEM, name: signingSecretName('acme', 'billing') }),
    )
    return { uid: keys.endpointUid, secrets: keys.keys.map(({ secret }) => secret) }
  }
  const names = () => resources.all(secrets).map(({ metadata }) => metadata.name)
  return { directory, store, given, stored, names }
}

test.each([
  { why: 'none are there', uid: undefined, want: 'n' },
  { why: 'those that are there are its own', uid: 'uid-1', want: 'o' },
  { why: 'they were made before it', uid: NO_ENDPOINT_YET, want: 'o' },
  { why: 'they are those of one that had the name before', uid: 'uid-0', want: 'n' },
])('an endpoint has its own keys from then on, where $why', async ({ uid, want }) => {
  const { directory, store, given, stored } = bed()
  if (uid !== undefined) await given({ uid }, [key('o')])
  directory.apply(endpoint)
  await store.create(endpoint, [key('n')])
  expect(await stored()).toEqual({ uid: 'uid-1', secrets: [key(want).secret] })
  expect(directory.get('acme', 'billing')?.keys?.keys).toEqual([key(want)])
})

test('the sweep takes keys of endpoints that are gone, and leaves those whose endpoint may still come', async () => {
  const { directory, store, given, names } = bed()
  directory.apply(endpoint)
  await given({ uid: 'uid-1' }, [key('a', 60 * MINUTE)])
  await given({ name: 'gone', uid: 'uid-2' }, [key('b')])
  await given({ name: 'coming', uid: NO_ENDPOINT_YET }, [key('c', 5 * MINUTE)])
  await given({ name: 'abandoned', uid: NO_ENDPOINT_YET }, [key('d', 11 * MINUTE)])
  await store.removeAbandoned(NOW)
  expect(names()).toEqual(['acme.billing', 'acme.coming'])
})

test('keys that a restore has made anew are bound to the endpoint of their name, once', async () => {
  const { directory, store, given, stored } = bed()
  await given({ uid: 'uid-before' }, [key('o', 60 * MINUTE)], NOW)
  directory.apply(endpoint)
  expect(directory.get('acme', 'billing')?.keys).toBeUndefined()
  await store.create(endpoint, [key('n')])
  expect(await stored()).toEqual({ uid: 'uid-1', secrets: [key('o').secret] })
  expect(directory.get('acme', 'billing')?.keys?.keys).toEqual([key('o', 60 * MINUTE)])
  // It goes and comes again while nobody watches: another endpoint, which inherits nothing.
  const next = { ...endpoint, metadata: { ...endpoint.metadata, uid: 'uid-2', resourceVersion: '9' } }
  directory.apply(next)
  await store.create(next, [key('n')])
  expect(await stored()).toEqual({ uid: 'uid-2', secrets: [key('n').secret] })
})

test('the sweep leaves restored keys for a day, since their endpoint may be restored later', async () => {
  const { store, given, names } = bed()
  await given({ name: 'coming', uid: 'uid-before' }, [key('c', 60 * MINUTE)], NOW)
  await store.removeAbandoned(NOW + 23 * 60 * MINUTE)
  expect(names()).toEqual(['acme.coming'])
  await store.removeAbandoned(NOW + 25 * 60 * MINUTE)
  expect(names()).toEqual([])
})
