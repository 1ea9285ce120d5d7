import { beforeEach, expect, test } from 'vitest'
import { type EventsBed, startEventsBed } from '../../../test/support/events-bed.ts'
import { webhookEvents } from '../../apis/webhook-event.ts'

let bed: EventsBed

beforeEach(async () => {
  bed = await startEventsBed()
})

test('an event whose status is made unreadable meanwhile is accepted, its status mended, and holds up no other', async () => {
  await bed.publish('a')
  await bed.publish('b')
  const ref = { namespace: 'acme', name: 'a' }
  await bed.store.patch(webhookEvents, ref, { status: { eventId: {}, state: 7 } }, { subresource: 'status' })
  await bed.reconciler.reconcile('acme')
  expect(bed.appended).toHaveLength(2)
  expect([await bed.stateOf('a'), await bed.stateOf('b')]).toEqual(['accepted', 'accepted'])
  expect(await bed.store.get(webhookEvents, ref)).toMatchObject({
    status: { eventId: `msg_${bed.appended[0]}` },
  })
  expect(bed.book.waitingIn('acme')).toEqual([])
})

test.each(['Invalid', 'Forbidden'] as const)(
  'an event whose status the API server refuses as %s holds up no other, is told of, and is tried again',
  async (kind) => {
    await bed.publish('a')
    await bed.publish('b')
    bed.refusals.set('a', kind)
    await expect(bed.reconciler.reconcile('acme')).rejects.toThrow(
      'failed to write the status of WebhookEvent acme/a',
    )
    await bed.publish('c')
    expect(await bed.reconciler.reconcile('acme')).toEqual({ afterMs: 1000 })
    expect([await bed.stateOf('a'), await bed.stateOf('b'), await bed.stateOf('c')]).toEqual([
      undefined,
      'accepted',
      'accepted',
    ])
    bed.refusals.clear()
    bed.clock.advance(10_000)
    await bed.reconciler.reconcile('acme')
    expect(await bed.stateOf('a')).toBe('accepted')
    expect(bed.appended).toHaveLength(3)
  },
)

test('what is refused again and again is tried and told after waits that grow to a minute', async () => {
  await bed.publish('a')
  bed.refusals.set('a', 'Forbidden')
  const waits: number[] = []
  for (let round = 0; round < 8; round += 1) {
    await expect(bed.reconciler.reconcile('acme')).rejects.toThrow('acme/a')
    const { afterMs = Number.NaN } = await bed.reconciler.reconcile('acme')
    waits.push(afterMs)
    bed.clock.advance(afterMs)
  }
  expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
})

test('an event that ended while its status is refused is finished later', async () => {
  await bed.publish('a')
  await bed.reconciler.reconcile('acme')
  bed.refusals.set('a', 'Forbidden')
  bed.readUpTo = 7
  await expect(bed.reconciler.reconcile('acme')).rejects.toThrow('acme/a')
  bed.refusals.clear()
  await bed.reconciler.reconcile('acme')
  expect(await bed.stateOf('a')).toBe('accepted')
  bed.clock.advance(1000)
  await bed.reconciler.reconcile('acme')
  expect(await bed.stateOf('a')).toBe('dispatched')
})

test('an API server that is away ends a pass, which is repeated', async () => {
  await bed.publish('a')
  bed.refusals.set('a', 'Unavailable')
  await expect(bed.reconciler.reconcile('acme')).rejects.toThrow()
  bed.refusals.clear()
  await bed.reconciler.reconcile('acme')
  expect(await bed.stateOf('a')).toBe('accepted')
})
