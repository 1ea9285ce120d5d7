import { describe, expect, it } from 'vitest'
import { queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { type Delivery, EndpointQueue } from './endpoint-queue.ts'
import { failingEndpoints, lateSeconds } from './pending-counts.ts'

const NOW = 1_000_000

function queueOf(name: string, policy = { ordered: false, concurrency: 1 }): EndpointQueue {
  const queue = new EndpointQueue({ namespace: 'acme', name, uid: `uid-${name}` })
  queue.paused = false
  queue.setPolicy(policy)
  return queue
}

function add(queue: EndpointQueue, version: number, more: Partial<Delivery>): Delivery {
  const delivery = Object.assign(queueDelivery(queue, version), more)
  queue.add(delivery)
  return delivery
}

describe('how late deliveries are', () => {
  it('a first attempt is late from the acceptance on, a later one from when it is due', () => {
    const first = queueOf('first')
    add(first, 1, { acceptedAt: NOW - 7000 })
    expect(lateSeconds([first], NOW)).toEqual({ davit: 7, endpoint: 0 })
    const later = queueOf('later')
    add(later, 1, { acceptedAt: NOW - 30_000_000, dueAt: NOW - 2000, attempts: 7 })
    expect(lateSeconds([later], NOW)).toEqual({ davit: 2, endpoint: 0 })
  })

  it('one that waits for its next attempt, or is on the wire, is not late, however old it is', () => {
    const queue = queueOf('retrying')
    add(queue, 1, { acceptedAt: 0, dueAt: NOW + 1000, attempts: 3, stage: 'waiting' })
    add(queue, 2, { acceptedAt: 0, attempts: 3, stage: 'sending' })
    expect(lateSeconds([queue], NOW)).toEqual({ davit: 0, endpoint: 0 })
  })

  it('a first attempt that was put back is late all the same', () => {
    const queue = queueOf('put-back')
    add(queue, 1, { acceptedAt: NOW - 5000, dueAt: NOW + 1000, stage: 'waiting' })
    expect(lateSeconds([queue], NOW).davit).toBe(5)
  })

  it('what waits for an attempt that hangs, or behind the head of an ordered endpoint, waits for its endpoint', () => {
    const hanging = queueOf('hanging')
    add(hanging, 1, { acceptedAt: NOW - 20_000 })
    add(hanging, 2, { acceptedAt: NOW - 9000 })
    hanging.startNext()
    expect(lateSeconds([hanging], NOW)).toEqual({ davit: 0, endpoint: 9 })
    const ordered = queueOf('ordered', { ordered: true, concurrency: 8 })
    add(ordered, 1, { acceptedAt: NOW - 20_000, attempts: 1, dueAt: NOW + 60_000, stage: 'waiting' })
    add(ordered, 2, { acceptedAt: NOW - 4000 })
    expect(lateSeconds([ordered], NOW)).toEqual({ davit: 0, endpoint: 4 })
  })

  it('what a disabled endpoint holds is not late', () => {
    const queue = queueOf('disabled')
    add(queue, 1, { acceptedAt: 0 })
    queue.paused = true
    expect(lateSeconds([queue], NOW)).toEqual({ davit: 0, endpoint: 0 })
  })
})

describe('the endpoints that fail', () => {
  it('are those whose last attempt failed, since their first failure, longest first', () => {
    const [one, other, well] = [queueOf('one'), queueOf('other'), queueOf('well')]
    one.recordAttempt(queueDelivery(one, 1), '5xx', NOW - 3000)
    other.recordAttempt(queueDelivery(other, 1), 'timeout', NOW - 9000)
    other.recordAttempt(queueDelivery(other, 2), 'refused', NOW - 1000)
    well.recordAttempt(queueDelivery(well, 1), '5xx', NOW - 9000)
    well.recordAttempt(queueDelivery(well, 1), '2xx', NOW - 8000)
    expect(failingEndpoints([one, other, well], NOW)).toEqual([
      { namespace: 'acme', name: 'other', class: 'refused', seconds: 9, attempts: 2 },
      { namespace: 'acme', name: 'one', class: '5xx', seconds: 3, attempts: 1 },
    ])
  })

  it('an attempt that was given up says nothing of its endpoint', () => {
    const queue = queueOf('one')
    queue.recordAttempt(queueDelivery(queue, 1), 'canceled', NOW)
    expect(failingEndpoints([queue], NOW)).toEqual([])
  })

  it('are known after a restart by what they have left, and go on from there', () => {
    const queue = queueOf('one')
    const left = add(queue, 1, { acceptedAt: NOW - 50_000, attempts: 3, dueAt: NOW + 1000, stage: 'waiting' })
    expect(failingEndpoints([queue], NOW)).toMatchObject([{ class: 'unknown', seconds: 50, attempts: 3 }])
    queue.recordAttempt(left, '4xx', NOW)
    expect(failingEndpoints([queue], NOW)).toMatchObject([{ class: '4xx', seconds: 50, attempts: 4 }])
    queue.recordAttempt(queueDelivery(queue, 2), '2xx', NOW)
    expect(failingEndpoints([queue], NOW)).toEqual([])
  })

  it('are not told of by a replica that has given them away', () => {
    const queue = queueOf('one')
    queue.recordAttempt(queueDelivery(queue, 1), '5xx', NOW)
    queue.detach()
    expect(failingEndpoints([queue], NOW)).toEqual([])
  })

  it('a disabled one fails no longer', () => {
    const queue = queueOf('one')
    queue.recordAttempt(queueDelivery(queue, 1), '5xx', NOW)
    queue.paused = true
    expect(failingEndpoints([queue], NOW)).toEqual([])
  })
})
