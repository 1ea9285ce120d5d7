import { beforeEach, expect, test } from 'vitest'
import { type EventsBed, startEventsBed } from '../../../test/support/events-bed.ts'
import type { FakeClock } from '../../../test/support/fake-clock.ts'
import type { MemoryStore } from '../../../test/support/memory-store.ts'
import { namespaces } from '../../apis/core-kinds.ts'
import { eventTypes } from '../../apis/event-type.ts'
import type { EndpointQueue } from '../delivery/endpoint-queue.ts'
import type { PendingCounters } from '../delivery/pending-counts.ts'
import type { ByteWindow } from '../log/written-bytes.ts'
import type { EventsReconciler } from './controller.ts'
import type { WebhookEventStore } from './store.ts'

let bed: EventsBed
let clock: FakeClock
let store: MemoryStore
let book: WebhookEventStore
let counters: PendingCounters
let queue: EndpointQueue
let written: ByteWindow
let recorded: [string, string][]
let appended: string[]
let reconciler: EventsReconciler

beforeEach(async () => {
  bed = await startEventsBed()
  ;({ clock, store, book, counters, queue, written, recorded, appended, reconciler } = bed)
})

const publish = (name: string, more?: object, namespace?: string) => bed.publish(name, more, namespace)
const stateOf = (name: string, namespace?: string) => bed.stateOf(name, namespace)

const logged = (name: string, bytes?: number) => bed.logged(name, bytes)
const elsewhere = (name: string, patch: object, subresource?: 'status') =>
  bed.elsewhere(name, patch, subresource)

test('an append that fails accepts nothing, and the next pass appends the same event', async () => {
  bed.failAppends = 1
  await publish('one')
  await expect(reconciler.reconcile('acme')).rejects.toThrow('no answer')
  expect(await stateOf('one')).toBeUndefined()
  await reconciler.reconcile('acme')
  expect([appended.length, await stateOf('one')]).toEqual([1, 'accepted'])
})

test('an event that was stored under other rules is refused and holds up no other', async () => {
  await publish('old', { data: 1 })
  await publish('new')
  await reconciler.reconcile('acme')
  expect([await stateOf('old'), await stateOf('new')]).toEqual(['refused', 'accepted'])
})

test('no more is accepted than there is room for, although the log shows it late; the rest goes on when some has ended', async () => {
  for (const name of ['one', 'two', 'three', 'four', 'five']) await publish(name)
  await reconciler.reconcile('acme')
  await reconciler.reconcile('acme')
  expect(appended).toHaveLength(3)
  const [first] = appended.map(logged)
  await reconciler.reconcile('acme')
  expect(appended).toHaveLength(3)
  expect(await stateOf('four')).toBeUndefined()
  expect(recorded).toContainEqual(['billing', 'TooManyPending'])
  if (first) counters.remove(first)
  await reconciler.reconcile('acme')
  expect([await stateOf('four'), await stateOf('five')]).toEqual(['accepted', undefined])
})

test('what an append that failed would have added takes no room for good', async () => {
  bed.failAppends = 1
  for (const name of ['one', 'two', 'three']) await publish(name)
  await expect(reconciler.reconcile('acme')).rejects.toThrow('no answer')
  await clock.elapse(10_000)
  await reconciler.reconcile('acme')
  expect(appended).toHaveLength(3)
})

test('what a disabled endpoint holds takes no room until its bytes do', async () => {
  for (const name of ['held-1', 'held-2', 'held-3']) logged(name)
  counters.setHeld(queue, true)
  await publish('one')
  await reconciler.reconcile('acme')
  expect(appended).toHaveLength(1)
  logged('held-4', 1001)
  await publish('two')
  await reconciler.reconcile('acme')
  expect(appended).toHaveLength(1)
  expect(recorded).toEqual([['billing', 'TooManyUnfinishedBytes']])
})

test.each([
  { of: ['acme'], bytes: 1001 },
  { of: ['other', 'another'], bytes: 751 },
])('events wait for ten minutes after $bytes bytes were written for each of $of', async ({ of, bytes }) => {
  for (const organization of of) written.add(organization, bytes)
  await publish('one')
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBeUndefined()
  await clock.elapse(600_000)
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('accepted')
})

test('what another organization writes beyond its own limit does not stop this one', async () => {
  written.add('other', 9000)
  await publish('one')
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('accepted')
})

test('a type, and the label of an organization, that the watch has not shown yet are looked up before an event is refused', async () => {
  await store.create(eventTypes, { metadata: { name: 'made.just-now' }, spec: { description: 'New.' } })
  await store.create(namespaces, {
    metadata: { name: 'newcomer', labels: { 'davit.dev/organization': 'true' } },
  })
  await publish('one', { type: 'made.just-now' })
  await publish('two', { type: 'no.such-type' })
  await publish('three', {}, 'newcomer')
  await publish('four', {}, 'stranger')
  for (const namespace of ['acme', 'newcomer', 'stranger']) await reconciler.reconcile(namespace)
  expect(await Promise.all([stateOf('one'), stateOf('two')])).toEqual(['accepted', 'refused'])
  expect(await stateOf('three', 'newcomer')).toBe('dispatched')
  expect(await stateOf('four', 'stranger')).toBe('refused')
})

test('what another replica has accepted or finished is not refused over it', async () => {
  for (const state of ['accepted', 'dispatched']) {
    await publish(state, { type: 'not.known' })
    await elsewhere(state, { status: { state } }, 'status')
  }
  await reconciler.reconcile('acme')
  expect([await stateOf('accepted'), await stateOf('dispatched')]).toEqual(['accepted', 'dispatched'])
})

test('what was appended is accepted, though another replica that knew less has refused it', async () => {
  await publish('one')
  await elsewhere('one', { status: { state: 'refused' } }, 'status')
  await reconciler.reconcile('acme')
  expect([appended.length, await stateOf('one')]).toEqual([1, 'accepted'])
})

test('an event that somebody annotates meanwhile is accepted, and finished', async () => {
  await publish('one')
  await elsewhere('one', { metadata: { annotations: { a: '1' } } })
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('accepted')
  const delivery = logged(appended[0] ?? '')
  await elsewhere('one', { metadata: { annotations: { a: '2' } } })
  counters.remove(delivery)
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('dispatched')
})

test('a pass over many events ends soon, and the next goes on, however slow the API server is', async () => {
  const names = Array.from({ length: 60 }, (_, n) => `no-json-${n}`)
  for (const name of names) await publish(name, { dataText: 'no' })
  bed.slowMs = 1000
  while (book.waitingIn('acme').length > 0) {
    const [left, begun] = [book.waitingIn('acme').length, clock.monotonic()]
    await reconciler.reconcile('acme')
    expect(clock.monotonic() - begun).toBeLessThan(10_000)
    expect(book.waitingIn('acme').length).toBeLessThan(left)
  }
  for (const name of names) expect(await stateOf(name)).toBe('refused')
})

test('a pass that accepts what waits forgets none that expires later', async () => {
  await publish('one', { type: 'not.known', ttlSecondsAfterFinished: 60 })
  await reconciler.reconcile('acme')
  await publish('two', { type: 'not.known' })
  expect(await reconciler.reconcile('acme')).toEqual({ afterMs: 60_000 })
})
