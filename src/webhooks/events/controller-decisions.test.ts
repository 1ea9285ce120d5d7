import { beforeEach, expect, test } from 'vitest'
import { type EventsBed, startEventsBed } from '../../../test/support/events-bed.ts'
import { eventType, eventTypes } from '../../apis/event-type.ts'
import { webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { webhookEvents } from '../../apis/webhook-event.ts'

let bed: EventsBed

beforeEach(async () => {
  bed = await startEventsBed()
})

const TYPE = 'environment.started'

/** Passes until it is due after a while, or until `forMs` are over by the clock; a failed one is repeated after a second. */
async function passes(forMs = 0): Promise<number> {
  const until = bed.clock.monotonic() + forMs
  for (let count = 1; ; count += 1) {
    const { afterMs = Number.POSITIVE_INFINITY } = await bed.reconciler
      .reconcile('acme')
      .catch(() => ({ afterMs: 1000 }))
    if (bed.clock.monotonic() + afterMs > until) return count
    bed.clock.advance(afterMs)
    if (count > 100_000) throw new Error('it goes on and on')
  }
}

async function statusOf(name: string): Promise<object | undefined> {
  const raw = await bed.store.get(webhookEvents, { namespace: 'acme', name })
  return (raw as { status?: object }).status
}

test('what was sent is said to be sent, whatever has changed until its status can be written', async () => {
  await bed.publish('a')
  bed.refusals.set('a', 'Forbidden')
  await passes()
  await bed.withdrawType()
  await bed.store.delete(webhookEndpoints, { namespace: 'acme', name: 'billing' })
  bed.refusals.clear()
  bed.clock.advance(60_000)
  await passes()
  expect(await statusOf('a')).toMatchObject({ state: 'accepted', deliveries: 1 })
  expect(bed.appended).toHaveLength(1)
})

test('what was refused, or went to nobody, stays so, whatever has changed until its status can be written', async () => {
  await bed.publish('unknown', { type: 'made.later' })
  await bed.store.delete(webhookEndpoints, { namespace: 'acme', name: 'billing' })
  await bed.publish('nobody')
  for (const name of ['unknown', 'nobody']) bed.refusals.set(name, 'Forbidden')
  await passes()
  await bed.store.create(eventTypes, { metadata: { name: 'made.later' }, spec: { description: 'Later.' } })
  const endpoint = { metadata: { namespace: 'acme', name: 'late' }, spec: { url: 'https://a.example' } }
  await bed.store.create(webhookEndpoints, endpoint)
  bed.refusals.clear()
  bed.clock.advance(60_000)
  await passes()
  expect(await statusOf('unknown')).toMatchObject({ state: 'refused' })
  expect(await statusOf('nobody')).toMatchObject({ state: 'dispatched', deliveries: 0 })
  expect(bed.appended).toHaveLength(1)
})

test('an event whose status is refused for hours is sent once, while others come and go', async () => {
  await bed.publish('a')
  bed.refusals.set('a', 'Invalid')
  for (let minute = 0; minute < 120; minute += 1) {
    await bed.publish(`other-${minute}`)
    await passes(30_000)
    bed.readUpTo = 7 + bed.appended.length
    await passes(30_000)
    expect(await bed.stateOf(`other-${minute}`)).toBe('dispatched')
    await bed.store.delete(webhookEvents, { namespace: 'acme', name: `other-${minute}` })
  }
  bed.refusals.clear()
  await passes(120_000)
  expect(await bed.stateOf('a')).toBe('dispatched')
  expect(bed.appended).toHaveLength(121)
  expect(new Set(bed.appended).size).toBe(121)
})

test('what the process before appended is accepted, though it would be refused today', async () => {
  await bed.publish('a')
  bed.refusals.set('a', 'Forbidden')
  await passes()
  await bed.withdrawType()
  bed.refusals.clear()
  bed.restart()
  await passes()
  expect(await statusOf('a')).toMatchObject({ state: 'accepted', deliveries: 1 })
  expect(bed.appended).toHaveLength(1)
})

test('hundreds whose status is refused cost few calls, are told of, and hold up no other', async () => {
  for (let n = 0; n < 600; n += 1) {
    await bed.publish(`e${n}`, { type: 'unknown.type' })
    bed.refusals.set(`e${n}`, 'Forbidden')
  }
  expect(await bed.reconciler.reconcile('acme')).toEqual({ afterMs: 0 })
  expect(await bed.reconciler.reconcile('acme')).toEqual({ afterMs: 0 })
  await expect(bed.reconciler.reconcile('acme')).rejects.toThrow(/acme\/e0 and 599 others/)
  bed.writes = 0
  const count = await passes(600_000)
  expect(bed.writes).toBeLessThanOrEqual(600 * 10)
  expect(count).toBeLessThan(2000)
  await bed.publish('late')
  await bed.reconciler.reconcile('acme').catch(() => undefined)
  expect(await bed.stateOf('late')).toBe('accepted')
  // All of them have their turn.
  bed.refusals.clear()
  await passes(120_000)
  expect(await bed.stateOf('e0')).toBe('refused')
  expect(bed.book.waitingIn('acme')).toEqual([])
})

test('what is refused is told of after ten seconds, though there is more and more to do', async () => {
  bed.slowMs = 30
  for (let n = 0; n < 3000; n += 1) {
    await bed.publish(`e${n}`, { type: 'unknown.type' })
    bed.refusals.set(`e${n}`, 'Forbidden')
  }
  const begun = bed.clock.monotonic()
  while ((await bed.reconciler.reconcile('acme').catch(() => 'told')) !== 'told')
    expect(bed.clock.monotonic() - begun).toBeLessThan(20_000)
  expect(bed.clock.monotonic() - begun).toBeGreaterThanOrEqual(10_000)
})

test('with thousands of them nothing more is accepted, until they are written', async () => {
  for (let n = 0; n < 5000; n += 1) {
    await bed.publish(`e${n}`, { type: 'unknown.type' })
    bed.refusals.set(`e${n}`, 'Forbidden')
  }
  await passes()
  await bed.publish('late')
  await passes(2000)
  expect(bed.appended).toEqual([])
  bed.refusals.clear()
  await passes(61_000)
  expect(bed.appended).toHaveLength(1)
  expect(bed.book.waitingIn('acme')).toEqual([])
})

test('what another replica has decided meanwhile is not what this one had decided before it', async () => {
  await bed.store.delete(eventTypes, { name: TYPE })
  bed.catalogue.remove(eventType.parse({ metadata: { name: TYPE }, spec: { description: 'Gone.' } }))
  await bed.publish('a')
  bed.refusals.set('a', 'Forbidden')
  await passes()
  const first = bed.reconciler
  first.release('acme')
  const type = { metadata: { name: TYPE }, spec: { description: 'An environment started.' } }
  bed.catalogue.apply(eventType.parse(await bed.store.create(eventTypes, type)))
  bed.restart()
  await passes()
  expect(bed.appended).toHaveLength(1)
  bed.reconciler = first
  bed.refusals.clear()
  bed.clock.advance(60_000)
  await passes()
  expect(await statusOf('a')).toMatchObject({ state: 'accepted', deliveries: 1 })
  expect(bed.appended).toHaveLength(1)
})

test('an event that is deleted while its status is refused is forgotten', async () => {
  await bed.publish('a')
  bed.refusals.set('a', 'Forbidden')
  await passes()
  const [event] = bed.book.waitingIn('acme')
  if (event) bed.book.remove(event)
  bed.writes = 0
  await passes(60_000)
  expect(bed.writes).toBe(0)
})
