import { expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { webhookEndpoint } from '../apis/webhook-endpoint.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { OpenBodies } from '../webhooks/events/open-bodies.ts'
import { PublishQuota } from '../webhooks/events/quota.ts'
import { PublishCounts } from './publish-counts.ts'

const LIMITS = { organization: 10, all: 1000 }

function bed() {
  const clock = new FakeClock()
  const directory = new EndpointDirectory()
  const sizes = new Map<string, number>()
  const bodies = new OpenBodies()
  const index = {
    progress: undefined as string | undefined,
    walks: 0,
    openBodies: () => bodies,
    unfinished() {
      this.walks += 1
      if (this.progress !== undefined) return []
      return [...sizes].map(([uid, size]) => ({
        namespace: uid.startsWith('g') ? 'globex' : 'acme',
        uid,
        size,
        bytes: size * 10,
      }))
    },
  }
  const counts = new PublishCounts(index, directory, clock)
  const room = new PublishQuota({
    counters: counts,
    unconfirmed: { total: 0, ofOrganization: () => 0 },
    written: { bytesOf: () => 0, total: 0, fairTotal: 0 },
    queues: (namespace) => counts.fullest(namespace),
    limits: {
      pending: LIMITS,
      openBytes: { organization: 100, all: 10_000 },
      writtenBytes: { organization: 1, all: 1 },
    },
  })
  const endpoint = (name: string, state = 'enabled') =>
    directory.apply(
      webhookEndpoint.parse({
        metadata: { name, namespace: 'acme', uid: `u-${name}`, resourceVersion: '1', generation: 1 },
        spec: { url: 'https://receiver.example', eventTypes: ['*'], state },
      }),
    )
  return { clock, sizes, bodies, index, counts, room, endpoint }
}

test('what waits takes room, of the own organization alone, and what a disabled endpoint holds does not', () => {
  const { sizes, room, endpoint } = bed()
  endpoint('slow')
  endpoint('paused', 'disabled')
  sizes.set('u-slow', 4).set('u-paused', 500).set('globex-one', 3)
  expect(room.remaining('acme')).toBe(6)
})

test('what this process appends takes room at once, and once only when the index counts it', () => {
  const { clock, sizes, counts, room, endpoint } = bed()
  endpoint('slow')
  expect(room.remaining('acme')).toBe(10)
  counts.reserve('acme', 4, 0)(true)
  sizes.set('u-slow', 4)
  expect(room.remaining('acme')).toBe(6)
  clock.advance(1000)
  expect(room.remaining('acme')).toBe(6)
  sizes.clear()
  clock.advance(1000)
  expect(room.remaining('acme')).toBe(10)
})

test('without room the endpoint with most is named', () => {
  const { sizes, room, endpoint } = bed()
  for (const name of ['slow', 'slower']) endpoint(name)
  sizes.set('u-slow', 4).set('u-slower', 6)
  expect(room.remaining('acme')).toMatchObject({
    reason: 'TooManyPending',
    used: 10,
    fullest: { endpoint: { name: 'slower' }, size: 6 },
  })
})

test('what is about to be appended takes room until it is there, or is given up', () => {
  const { clock, counts, room, endpoint } = bed()
  endpoint('slow')
  const [first, second] = [counts.reserve('acme', 6, 0), counts.reserve('acme', 4, 0)]
  expect(room.remaining('acme')).toMatchObject({ reason: 'TooManyPending' })
  clock.advance(1000)
  expect(room.remaining('acme')).toMatchObject({ reason: 'TooManyPending' })
  second(false)
  expect(room.remaining('acme')).toBe(4)
  first(true)
  expect(room.remaining('acme')).toBe(4)
})

test('an organization that has no room costs one count of all for however many publishes that are refused', () => {
  const { sizes, index, room, endpoint } = bed()
  endpoint('slow')
  sizes.set('u-slow', 12).set('globex-one', 500)
  for (let publishes = 0; publishes < 100; publishes += 1)
    expect(room.remaining('acme')).toMatchObject({ fullest: { endpoint: { name: 'slow' } } })
  expect(index.walks).toBe(1)
})

test('while the log is read again, what waited and what was appended since take their room', () => {
  const { clock, sizes, index, counts, room, endpoint } = bed()
  endpoint('slow')
  sizes.set('u-slow', 4)
  expect(room.remaining('acme')).toBe(6)
  index.progress = 'reading the events'
  clock.advance(1000)
  counts.reserve('acme', 2, 0)(true)
  clock.advance(1000)
  expect(room.remaining('acme')).toBe(4)
  counts.reserve('acme', 4, 0)(true)
  clock.advance(1000)
  expect(room.remaining('acme')).toMatchObject({
    reason: 'TooManyPending',
    fullest: { endpoint: { name: 'slow' } },
  })
  index.progress = undefined
  sizes.clear()
  expect(room.remaining('acme')).toBe(10)
})

test('bodies take room by their bytes, also those that a disabled endpoint holds and those that are being appended', () => {
  const { sizes, bodies, counts, room, endpoint } = bed()
  endpoint('paused', 'disabled')
  sizes.set('u-paused', 3)
  bodies.add('acme', { bytes: 60 })
  expect(room.remaining('acme')).toBe(10)
  const ended = counts.reserve('acme', 1, 40)
  expect(room.remaining('acme')).toMatchObject({
    reason: 'TooManyUnfinishedBytes',
    used: 100,
    fullest: { endpoint: { name: 'paused' }, held: true },
  })
  expect(room.remaining('other')).toBe(10)
  ended(true)
  expect(room.remaining('acme')).toBe(9)
  bodies.add('acme', { bytes: 40 })
  expect(room.remaining('acme')).toMatchObject({ reason: 'TooManyUnfinishedBytes' })
})
