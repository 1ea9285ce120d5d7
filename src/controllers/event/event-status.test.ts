import { beforeEach, expect, test } from 'vitest'
import { type EventsBed, startEventsBed } from '../../../test/support/events-bed.ts'
import { webhookEvents } from '../../api/webhook-event.ts'

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
  'an event whose status the API server refuses as %s holds up no other, and is tried again in a minute',
  async (kind) => {
    await bed.publish('a')
    await bed.publish('b')
    bed.refusals.set('a', kind)
    await bed.reconciler.reconcile('acme')
    await bed.publish('c')
    await bed.reconciler.reconcile('acme')
    expect([await bed.stateOf('a'), await bed.stateOf('b'), await bed.stateOf('c')]).toEqual([
      undefined,
      'accepted',
      'accepted',
    ])
    expect(bed.notWritten).toEqual(['a'])
    bed.refusals.clear()
    bed.clock.advance(60_000)
    await bed.reconciler.reconcile('acme')
    expect(await bed.stateOf('a')).not.toBeUndefined()
    expect(new Set(bed.appended).size).toBe(3)
  },
)

test('an API server that is away ends a pass, which is repeated', async () => {
  await bed.publish('a')
  bed.refusals.set('a', 'Unavailable')
  await expect(bed.reconciler.reconcile('acme')).rejects.toThrow()
  bed.refusals.clear()
  await bed.reconciler.reconcile('acme')
  expect(await bed.stateOf('a')).toBe('accepted')
})
