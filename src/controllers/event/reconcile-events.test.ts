import { beforeEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { eventOutline } from '../../api/event-outline.ts'
import { eventType, eventTypes } from '../../api/event-type.ts'
import { webhookEndpoints } from '../../api/webhook-endpoint.ts'
import { webhookEvents } from '../../api/webhook-event.ts'
import { ApiError } from '../../ports/kubernetes.ts'
import { Catalogue } from '../catalogue.ts'
import type { Delivery } from '../delivery/delivery.ts'
import { Lane } from '../delivery/lane.ts'
import { Tally } from '../delivery/tally.ts'
import { KeyIndex } from '../delivery-log/key-index.ts'
import { Organizations } from '../organizations.ts'
import { EventBook } from './event-book.ts'
import { EventsReconciler } from './reconcile-events.ts'

const lane = new Lane({ namespace: 'acme', name: 'billing', uid: 'uid-1' })

let clock: FakeClock
let store: MemoryStore
let book: EventBook
let tally: Tally
let appended: string[]
let failAppends: number
let reconciler: EventsReconciler

beforeEach(async () => {
  clock = new FakeClock()
  store = new MemoryStore(() => clock.now())
  book = new EventBook()
  tally = new Tally()
  appended = []
  failAppends = 0
  const organizations = new Organizations()
  organizations.apply({ name: 'acme', ownerEmails: [] })
  const catalogue = new Catalogue()
  const type = { metadata: { name: 'environment.started' }, spec: { description: 'An environment started.' } }
  catalogue.apply(eventType.parse(await store.create(eventTypes, type)))
  reconciler = new EventsReconciler({
    resources: store,
    writer: store,
    organizations,
    catalogue,
    validator: { validate: () => [] },
    keys: new KeyIndex(),
    log: {
      append: async (events) => {
        if (failAppends > 0) {
          failAppends -= 1
          throw new ApiError('Unavailable', 'no answer', { status: 0 })
        }
        appended.push(...events.map(({ event }) => event.id))
        return { segment: 's', version: 7, firstDelivery: 0 }
      },
    },
    clock,
    book,
    tally,
    maxPending: 100,
    maxPendingInAll: 1000,
  })
  tally.onEventDone = (name) => void reconciler.delivered(name)
  await store.create(webhookEndpoints, {
    metadata: { namespace: 'acme', name: 'billing' },
    spec: { url: 'https://receiver.example', eventTypes: ['*'] },
  })
})

async function publish(name: string, more: object = {}): Promise<void> {
  const metadata = { namespace: 'acme', name }
  const spec = { type: 'environment.started', dataText: '{}', ...more }
  book.apply(eventOutline.parse(await store.create(webhookEvents, { metadata, spec })))
}

async function stateOf(name: string): Promise<unknown> {
  const { status } = (await store.get(webhookEvents, { namespace: 'acme', name })) as {
    status?: { state?: string }
  }
  return status?.state
}

/** The log shows the event's delivery. */
function shown(name: string): Delivery {
  const delivery: Delivery = {
    name,
    lane,
    version: 7,
    index: 0,
    acceptedAt: 0,
    attempts: 0,
    dueAt: 0,
    stage: 'queued',
    left: false,
    home: { kind: 'object' },
  }
  tally.add(delivery)
  return delivery
}

test('an event that the log has not shown yet is not taken for delivered', async () => {
  await publish('one')
  await reconciler.reconcile('acme')
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('accepted')
  const delivery = shown(appended[0] ?? '')
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('accepted')
  tally.remove(delivery)
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('dispatched')
})

test('an event whose deliveries ended before its acceptance was noted is noted as dispatched at once', async () => {
  await publish('one')
  appended.push = (...names) => {
    for (const name of names) tally.remove(shown(name))
    return names.length
  }
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('dispatched')
})

test('an event that the log never shows is finished after a while', async () => {
  await publish('one')
  await reconciler.reconcile('acme')
  await clock.elapse(10_000)
  await reconciler.reconcile('acme')
  expect(await stateOf('one')).toBe('dispatched')
})

test('an append that fails accepts nothing, and the next pass appends the same event', async () => {
  failAppends = 1
  await publish('one')
  await expect(reconciler.reconcile('acme')).rejects.toThrow('no answer')
  expect(await stateOf('one')).toBeUndefined()
  await reconciler.reconcile('acme')
  expect(appended).toHaveLength(1)
  expect(await stateOf('one')).toBe('accepted')
})

test('an event that was stored under other rules is refused and holds up no other', async () => {
  await publish('old', { data: 1 })
  await publish('new')
  await reconciler.reconcile('acme')
  expect(await stateOf('old')).toBe('refused')
  expect(await stateOf('new')).toBe('accepted')
})
