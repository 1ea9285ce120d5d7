import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { INLINE_PAYLOAD_BYTES } from '../log/codec.ts'
import { type Delivery, EndpointQueue } from './endpoint-queue.ts'
import { PendingCounters } from './pending-counts.ts'

function delivery(name: string, queue: EndpointQueue, bytes = 10): Delivery {
  return {
    name,
    queue,
    version: 1,
    index: 0,
    acceptedAt: 0,
    ofWebhookEvent: true,
    bodyBytes: bytes,
    sharesBody: false,
    attempts: 0,
    dueAt: 0,
    stage: 'queued',
    left: false,
    storage: { kind: 'object' },
  }
}

function queueIn(namespace: string, name = 'one'): EndpointQueue {
  return new EndpointQueue({ namespace, name, uid: `${namespace}/${name}` })
}

describe('a tally', () => {
  it('counts by organization and by event', () => {
    const counters = new PendingCounters()
    const acme = queueIn('acme')
    const first = delivery('event-1', acme)
    for (const one of [first, delivery('event-1', acme), delivery('event-2', queueIn('other'))])
      counters.add(one)
    expect([counters.total, counters.ofOrganization('acme').pending, counters.ofEvent('event-1')]).toEqual([
      3, 2, 2,
    ])
    counters.remove(first)
    expect([counters.total, counters.ofOrganization('acme').pending, counters.ofEvent('event-1')]).toEqual([
      2, 1, 1,
    ])
    expect([counters.ofOrganization('nobody').pending, counters.ofEvent('event-3')]).toEqual([0, 0])
  })

  it('tells nothing of events that nobody asks for: those that are no WebhookEvents', () => {
    const counters = new PendingCounters()
    const told: string[] = []
    counters.onEventSeen = (name) => told.push(name)
    counters.onEventDone = (name) => told.push(name)
    const acme = queueIn('acme')
    const one = { ...delivery('event-1', acme), ofWebhookEvent: false }
    counters.add(one)
    counters.addEntry(acme, {
      id: 'event-2',
      namespace: 'acme',
      type: 'test',
      bodyBytes: 0,
      receivers: 1,
      key: 'of a request',
    })
    expect([counters.total, counters.ofEvent('event-1'), counters.ofEvent('event-2')]).toEqual([2, 0, 0])
    counters.remove(one)
    counters.removeEntry(
      acme,
      { id: 'event-2', namespace: 'acme', type: 'test', bodyBytes: 0, receivers: 1 },
      1,
    )
    expect([counters.total, told]).toEqual([0, []])
  })

  it('tells when an event has its first delivery, and when its last has ended', () => {
    const counters = new PendingCounters()
    const told: string[] = []
    counters.onEventSeen = (name) => told.push(`seen ${name}`)
    counters.onEventDone = (name) => told.push(`done ${name}`)
    const deliveries = [delivery('event-1', queueIn('acme')), delivery('event-1', queueIn('acme'))]
    for (const one of deliveries) counters.add(one)
    expect(told).toEqual(['seen event-1'])
    for (const one of deliveries) {
      expect(told).toEqual(['seen event-1'])
      counters.remove(one)
    }
    expect(told).toEqual(['seen event-1', 'done event-1'])
  })

  it.each([
    [
      'a small one for each of its deliveries, as each may get an object with a copy',
      INLINE_PAYLOAD_BYTES,
      3,
    ],
    ['a large one once, as objects refer to it', INLINE_PAYLOAD_BYTES + 1, 1],
  ])('counts the bytes of a body as the store may have them: %s', (_, bodyBytes, copies) => {
    const counters = new PendingCounters()
    const event = { id: 'event-1', namespace: 'acme', type: 'test', bodyBytes, receivers: 3 }
    const queues = ['a', 'b', 'c'].map((name) => queueIn('acme', name))
    for (const queue of queues) counters.addEntry(queue, event)
    expect(counters.bodies.of('acme')).toBe(copies * bodyBytes)
    for (const queue of queues) counters.removeEntry(queue, event, 1)
    expect(counters.bodies.total).toBe(0)
  })

  it('knows at any time what goes on, what is held, and how many bytes are open', () => {
    const step = fc.record({
      what: fc.constantFrom('add', 'remove', 'hold', 'release'),
      queue: fc.nat({ max: 3 }),
      bytes: fc.nat({ max: 100 }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const counters = new PendingCounters()
        const queues = [queueIn('a', '1'), queueIn('a', '2'), queueIn('b', '1'), queueIn('b', '2')]
        for (const { what, queue: at, bytes } of steps) {
          const queue = queues[at] ?? queueIn('never')
          if (what === 'add') addTo(counters, queue, bytes)
          else if (what === 'remove') removeFrom(counters, queue)
          else counters.setHeld(queue, what === 'hold')
        }
        for (const organization of ['a', 'b']) {
          const own = queues.filter(({ endpoint }) => endpoint.namespace === organization)
          expect(counters.ofOrganization(organization)).toEqual(countsOf(own))
          expect(counters.bodies.of(organization)).toBe(bytesOf(own))
        }
        expect(counters.all).toEqual(countsOf(queues))
        expect(counters.bodies.total).toBe(bytesOf(queues))
      }),
    )
  })
})

function addTo(counters: PendingCounters, queue: EndpointQueue, bytes: number): void {
  const one = delivery('event', queue, bytes)
  counters.add(one)
  queue.add(one)
}

function removeFrom(counters: PendingCounters, queue: EndpointQueue): void {
  const [first] = queue.members()
  if (!first) return
  queue.remove(first)
  counters.remove(first)
}

function countsOf(queues: readonly EndpointQueue[]) {
  const sum = (some: readonly EndpointQueue[]) => some.reduce((total, { size }) => total + size, 0)
  const held = queues.filter(({ held }) => held)
  return { pending: sum(queues) - sum(held), held: sum(held) }
}

function bytesOf(queues: readonly EndpointQueue[]): number {
  return queues.reduce((total, { bytes }) => total + bytes, 0)
}
