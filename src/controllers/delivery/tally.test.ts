import { describe, expect, it } from 'vitest'
import type { Delivery } from './delivery.ts'
import { Lane } from './lane.ts'
import { Tally } from './tally.ts'

function delivery(name: string, namespace: string): Delivery {
  return {
    name,
    lane: new Lane({ namespace, name: 'one', uid: namespace }),
    version: 1,
    index: 0,
    acceptedAt: 0,
    attempts: 0,
    dueAt: 0,
    stage: 'queued',
    left: false,
    home: { kind: 'object' },
  }
}

describe('a tally', () => {
  it('counts by organization and by event', () => {
    const tally = new Tally()
    const first = delivery('event-1', 'acme')
    for (const one of [first, delivery('event-1', 'acme'), delivery('event-2', 'other')]) tally.add(one)
    expect([tally.total, tally.ofOrganization('acme'), tally.ofEvent('event-1')]).toEqual([3, 2, 2])
    tally.remove(first)
    expect([tally.total, tally.ofOrganization('acme'), tally.ofEvent('event-1')]).toEqual([2, 1, 1])
    expect([tally.ofOrganization('nobody'), tally.ofEvent('event-3')]).toEqual([0, 0])
  })

  it('tells when the last delivery of an event has ended', () => {
    const tally = new Tally()
    const done: string[] = []
    tally.onEventDone = (name) => done.push(name)
    const deliveries = [delivery('event-1', 'acme'), delivery('event-1', 'acme')]
    for (const one of deliveries) tally.add(one)
    for (const one of deliveries) {
      expect(done).toEqual([])
      tally.remove(one)
    }
    expect(done).toEqual(['event-1'])
  })
})
