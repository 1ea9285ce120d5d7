import { describe, expect, it } from 'vitest'
import { settle } from '../../../test/support/fake-clock.ts'
import { Dispatcher } from './dispatcher.ts'
import { type Delivery, EndpointQueue } from './endpoint-queue.ts'

type Running = { delivery: Delivery; end(): void }

function dispatcher(options: {
  maxInFlight: number
  maxBytesInFlight?: number
  mayStart?: () => boolean
  mayRun?: (queue: EndpointQueue) => boolean
}) {
  const running: Running[] = []
  const started: string[] = []
  const dispatcher = new Dispatcher({
    maxBytesInFlight: 1_000_000,
    mayStart: () => true,
    mayServe: () => true,
    mayRun: () => true,
    run: (delivery) =>
      new Promise((resolve) => {
        started.push(delivery.name)
        const end = () => {
          delivery.queue.remove(delivery)
          delivery.queue.release({ tookTooLong: false })
          resolve()
        }
        running.push({ delivery, end })
      }),
    ...options,
  })
  return { dispatcher, running, started }
}

type Options = { concurrency?: number; namespace?: string; bodyBytes?: number }

function queue(name: string, deliveries: number, options: Options = {}): EndpointQueue {
  const { concurrency = 32, namespace = 'acme', bodyBytes = 0 } = options
  const made = new EndpointQueue({ namespace, name, uid: name })
  made.paused = false
  made.setPolicy({ ordered: false, concurrency })
  for (let index = 0; index < deliveries; index += 1) {
    made.add({
      name: `${name}${index}`,
      queue: made,
      version: 1,
      index,
      acceptedAt: 0,
      ofWebhookEvent: true,
      bodyBytes,
      sharesBody: false,
      attempts: 0,
      dueAt: 0,
      stage: 'queued',
      left: false,
      storage: { kind: 'object' },
    })
  }
  return made
}

describe('a dispatcher', () => {
  it('gives lanes fair turns, however much one of them has', async () => {
    let open = false
    const { dispatcher: it, running, started } = dispatcher({ maxInFlight: 1, mayStart: () => open })
    for (const one of [queue('a', 100), queue('b', 3), queue('c', 2)]) it.wake(one)
    open = true
    it.pump()
    for (let i = 0; i < 8; i += 1) {
      running.at(-1)?.end()
      await settle()
    }
    expect(started).toEqual(['a0', 'b0', 'c0', 'a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  })

  it('starts no more at a time than the process may', async () => {
    const { dispatcher: it, running } = dispatcher({ maxInFlight: 5 })
    it.wake(queue('a', 100))
    it.wake(queue('b', 100))
    expect([it.inFlight, running.length]).toEqual([5, 5])
    running[0]?.end()
    await settle()
    expect([it.inFlight, running.length]).toEqual([5, 6])
  })

  it('lists a lane once, however often it is woken', () => {
    const { dispatcher: it } = dispatcher({ maxInFlight: 0 })
    const one = queue('a', 1)
    for (let i = 0; i < 10; i += 1) it.wake(one)
    expect(it.waitingQueues).toBe(1)
  })

  it('starts nothing while it may not, and goes on when it is told', () => {
    let open = false
    const { dispatcher: it, started } = dispatcher({ maxInFlight: 5, mayStart: () => open })
    it.wake(queue('a', 2))
    expect(started).toEqual([])
    open = true
    it.pump()
    expect(started).toEqual(['a0', 'a1'])
  })

  it('lets go of lanes that have nothing to start', async () => {
    const { dispatcher: it, running } = dispatcher({ maxInFlight: 5 })
    it.wake(queue('a', 1))
    running[0]?.end()
    await settle()
    expect([it.waitingQueues, it.inFlight]).toEqual([0, 0])
  })

  it('comes back to a lane at its limit when one of its attempts has ended', async () => {
    const { dispatcher: it, running, started } = dispatcher({ maxInFlight: 50 })
    it.wake(queue('a', 4, { concurrency: 2 }))
    expect(started).toEqual(['a0', 'a1'])
    running[1]?.end()
    await settle()
    expect(started).toEqual(['a0', 'a1', 'a2'])
  })

  it('gives turns to organizations first, however many endpoints one of them has', async () => {
    let open = false
    const { dispatcher: it, running, started } = dispatcher({ maxInFlight: 1, mayStart: () => open })
    for (const name of ['a', 'b', 'c']) it.wake(queue(name, 2))
    it.wake(queue('x', 2, { namespace: 'globex' }))
    open = true
    it.pump()
    for (let i = 0; i < 7; i += 1) {
      running.at(-1)?.end()
      await settle()
    }
    expect(started).toEqual(['a0', 'x0', 'b0', 'x1', 'c0', 'a1', 'b1', 'c1'])
  })

  it('keeps places for organizations with few attempts, whatever one of them would use', async () => {
    const { dispatcher: it, running, started } = dispatcher({ maxInFlight: 100 })
    for (let n = 0; n < 10; n += 1) it.wake(queue(`slow${n}-`, 32))
    expect([it.inFlight, it.isCrowded]).toEqual([90, true])
    it.wake(queue('quick', 3, { namespace: 'globex' }))
    expect([it.inFlight, started.at(-1)]).toEqual([91, 'quick0'])
    running.at(-1)?.end()
    await settle()
    expect([it.inFlight, started.at(-1)]).toEqual([91, 'quick1'])
  })

  it('starts no more than may be on its way in bytes, but one body that is larger', async () => {
    const { dispatcher: it, running } = dispatcher({ maxInFlight: 100, maxBytesInFlight: 1000 })
    it.wake(queue('large', 9, { bodyBytes: 250 }))
    expect([it.inFlight, it.bytesInFlight, it.isCrowded]).toEqual([4, 1000, true])
    running[0]?.end()
    await settle()
    expect([it.inFlight, it.bytesInFlight]).toEqual([4, 1000])
    const { dispatcher: other } = dispatcher({ maxInFlight: 100, maxBytesInFlight: 1000 })
    other.wake(queue('huge', 2, { bodyBytes: 5000 }))
    expect(other.inFlight).toBe(1)
  })
})
