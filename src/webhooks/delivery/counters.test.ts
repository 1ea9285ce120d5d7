import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { PendingCounters } from './counters.ts'
import { type Delivery, EndpointQueue } from './queue.ts'

function delivery(name: string, lane: EndpointQueue, bytes = 10): Delivery {
  return {
    name,
    queue: lane,
    version: 1,
    index: 0,
    acceptedAt: 0,
    ofWebhookEvent: true,
    bytes,
    attempts: 0,
    dueAt: 0,
    stage: 'queued',
    left: false,
    storage: { kind: 'object' },
  }
}

function laneIn(namespace: string, name = 'one'): EndpointQueue {
  return new EndpointQueue({ namespace, name, uid: `${namespace}/${name}` })
}

describe('a tally', () => {
  it('counts by organization and by event', () => {
    const counters = new PendingCounters()
    const acme = laneIn('acme')
    const first = delivery('event-1', acme)
    for (const one of [first, delivery('event-1', acme), delivery('event-2', laneIn('other'))])
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
    const acme = laneIn('acme')
    const one = { ...delivery('event-1', acme), ofWebhookEvent: false }
    counters.add(one)
    counters.addEntry(acme, {
      id: 'event-2',
      namespace: 'acme',
      type: 'test',
      payload: '',
      key: 'of a request',
    })
    expect([counters.total, counters.ofEvent('event-1'), counters.ofEvent('event-2')]).toEqual([2, 0, 0])
    counters.remove(one)
    counters.removeEntry(acme, { id: 'event-2', namespace: 'acme', type: 'test', payload: '' }, 1)
    expect([counters.total, told]).toEqual([0, []])
  })

  it('tells when an event has its first delivery, and when its last has ended', () => {
    const counters = new PendingCounters()
    const told: string[] = []
    counters.onEventSeen = (name) => told.push(`seen ${name}`)
    counters.onEventDone = (name) => told.push(`done ${name}`)
    const deliveries = [delivery('event-1', laneIn('acme')), delivery('event-1', laneIn('acme'))]
    for (const one of deliveries) counters.add(one)
    expect(told).toEqual(['seen event-1'])
    for (const one of deliveries) {
      expect(told).toEqual(['seen event-1'])
      counters.remove(one)
    }
    expect(told).toEqual(['seen event-1', 'done event-1'])
  })

  it('knows at any time what goes on, what is held, and of how many bytes', () => {
    const step = fc.record({
      what: fc.constantFrom('add', 'remove', 'hold', 'release'),
      lane: fc.nat({ max: 3 }),
      bytes: fc.nat({ max: 100 }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const counters = new PendingCounters()
        const lanes = [laneIn('a', '1'), laneIn('a', '2'), laneIn('b', '1'), laneIn('b', '2')]
        for (const { what, lane: at, bytes } of steps) {
          const lane = lanes[at] ?? laneIn('never')
          if (what === 'add') addTo(counters, lane, bytes)
          else if (what === 'remove') removeFrom(counters, lane)
          else counters.setHeld(lane, what === 'hold')
        }
        for (const organization of ['a', 'b'])
          expect(counters.ofOrganization(organization)).toEqual(
            countsOf(lanes.filter(({ endpoint }) => endpoint.namespace === organization)),
          )
        expect(counters.all).toEqual(countsOf(lanes))
      }),
    )
  })
})

function addTo(counters: PendingCounters, lane: EndpointQueue, bytes: number): void {
  const one = delivery('event', lane, bytes)
  counters.add(one)
  lane.add(one)
}

function removeFrom(counters: PendingCounters, lane: EndpointQueue): void {
  const [first] = lane.members()
  if (!first) return
  lane.remove(first)
  counters.remove(first)
}

function countsOf(lanes: readonly EndpointQueue[]) {
  const sum = (some: readonly EndpointQueue[]) => some.reduce((total, { size }) => total + size, 0)
  const held = lanes.filter(({ held }) => held)
  const bytes = held.flatMap((lane) => [...lane.members()]).reduce((total, { bytes }) => total + bytes, 0)
  return { pending: sum(lanes) - sum(held), held: sum(held), heldBytes: bytes }
}
