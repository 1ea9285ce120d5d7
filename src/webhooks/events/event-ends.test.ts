/** When an event is said to be dispatched: the log may show late what was appended, and an object may show it before the log does. */
import { beforeEach, describe, expect, test } from 'vitest'
import { type EventsBed, startEventsBed } from '../../../test/support/events-bed.ts'
import { webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { eventOutline, webhookEvents } from '../../apis/webhook-event.ts'

let bed: EventsBed

beforeEach(async () => {
  bed = await startEventsBed()
})

/** A pass over the organization. */
const pass = () => bed.reconciler.reconcile('acme')

test('an event that the log has not shown yet is not taken for delivered', async () => {
  await bed.publish('one')
  await pass()
  await pass()
  expect(await bed.stateOf('one')).toBe('accepted')
  const delivery = bed.logged(bed.appended[0] ?? '')
  await pass()
  expect(await bed.stateOf('one')).toBe('accepted')
  bed.counters.remove(delivery)
  await pass()
  expect(await bed.stateOf('one')).toBe('dispatched')
})

test('an event whose deliveries ended before its acceptance was noted is noted as dispatched at once', async () => {
  await bed.publish('one')
  bed.appended.push = (...names) => {
    for (const name of names) bed.counters.remove(bed.logged(name))
    return names.length
  }
  await pass()
  expect(await bed.stateOf('one')).toBe('dispatched')
})

test('an event is not taken for delivered before the log is shown as far as it, however long that takes', async () => {
  await bed.publish('one')
  await pass()
  await bed.clock.elapse(8 * 3_600_000)
  bed.readUpTo = 6
  await pass()
  expect(await bed.stateOf('one')).toBe('accepted')
  const delivery = bed.logged(bed.appended[0] ?? '')
  await pass()
  expect(await bed.stateOf('one')).toBe('accepted')
  bed.counters.remove(delivery)
  await pass()
  expect(await bed.stateOf('one')).toBe('dispatched')
})

test('an event of which nothing is pending once the log is shown as far as it is finished, and takes no room', async () => {
  for (const name of ['one', 'two', 'three']) await bed.publish(name)
  await pass()
  await bed.publish('four')
  await bed.clock.elapse(10_000)
  await pass()
  expect(await bed.stateOf('four')).toBeUndefined()
  bed.readUpTo = 7
  await pass()
  expect([await bed.stateOf('one'), await bed.stateOf('four')]).toEqual(['dispatched', 'accepted'])
})

test('an event that the process before has appended is finished once it is accepted: the log has shown it', async () => {
  await bed.publish('one')
  bed.refusals.set('one', 'Unavailable')
  await expect(pass()).rejects.toThrow()
  bed.refusals.clear()
  bed.restart()
  await pass()
  await pass()
  expect([bed.appended.length, await bed.stateOf('one')]).toEqual([1, 'dispatched'])
})

describe('an event that another replica has accepted', () => {
  const accepted = async () => {
    await bed.publish('one')
    await pass()
    bed.restart()
  }

  test('is finished when the log is shown to where its status said so', async () => {
    await accepted()
    const { metadata } = bed.book.acceptedIn('acme')[0] ?? {}
    bed.readUpTo = Number(metadata?.resourceVersion) - 1
    await pass()
    expect(await bed.stateOf('one')).toBe('accepted')
    bed.readUpTo += 1
    await pass()
    expect(await bed.stateOf('one')).toBe('dispatched')
  })

  test('is finished when its deliveries are seen to end', async () => {
    await accepted()
    bed.counters.remove(bed.logged(bed.appended[0] ?? ''))
    await pass()
    expect(await bed.stateOf('one')).toBe('dispatched')
  })

  test('is not when one of them is that an object shows: the log may still show another', async () => {
    await accepted()
    bed.counters.remove(bed.known(bed.appended[0] ?? ''))
    await pass()
    expect(await bed.stateOf('one')).toBe('accepted')
    const other = bed.logged(bed.appended[0] ?? '')
    await pass()
    expect(await bed.stateOf('one')).toBe('accepted')
    bed.counters.remove(other)
    await pass()
    expect(await bed.stateOf('one')).toBe('dispatched')
  })

  test('is finished at the version that said so first, whatever else is written of it later', async () => {
    await accepted()
    const said = Number(bed.book.acceptedIn('acme')[0]?.metadata.resourceVersion)
    for (const a of ['1', '2']) await bed.elsewhere('one', { metadata: { annotations: { a } } })
    bed.book.apply(eventOutline.parse(await bed.store.get(webhookEvents, { namespace: 'acme', name: 'one' })))
    bed.readUpTo = said
    await pass()
    expect(await bed.stateOf('one')).toBe('dispatched')
  })

  test('is not said to go to nobody by who had not heard of it', async () => {
    await bed.publish('one')
    await bed.elsewhere('one', { status: { state: 'accepted' } }, 'status')
    await bed.store.delete(webhookEndpoints, { namespace: 'acme', name: 'billing' })
    await pass()
    expect(await bed.stateOf('one')).toBe('accepted')
  })
})

test.each([
  ['nobody', async () => bed.store.delete(webhookEndpoints, { namespace: 'acme', name: 'billing' })],
  ['a type that is gone', async () => bed.withdrawType()],
])(
  'an append without an answer may be in the log: it is not judged anew with %s before that is known',
  async (_, change) => {
    bed.failAppends = 1
    await bed.publish('one')
    await expect(pass()).rejects.toThrow('no answer')
    await change()
    await pass()
    expect(await bed.stateOf('one')).toBeUndefined()
    await bed.clock.elapse(10_000)
    await pass()
    expect(await bed.stateOf('one')).not.toBe('accepted')
  },
)

describe('what is known of an event', () => {
  const remove = async () => {
    const raw = eventOutline.parse(await bed.store.get(webhookEvents, { namespace: 'acme', name: 'one' }))
    await bed.store.delete(webhookEvents, { namespace: 'acme', name: 'one' })
    bed.book.remove(raw)
  }

  test('is forgotten when it is deleted while it is bed.appended, and takes room until the log has shown it', async () => {
    await bed.publish('one')
    bed.beforeAppend = remove
    await pass()
    expect([bed.unconfirmed.size, bed.unconfirmed.total]).toEqual([0, 1])
    bed.logged(bed.appended[0] ?? '')
    expect(bed.unconfirmed.total).toBe(0)
  })

  test('is forgotten when it is deleted while its append fails', async () => {
    await bed.publish('one')
    bed.failAppends = 1
    bed.beforeAppend = remove
    await expect(pass()).rejects.toThrow('no answer')
    expect(bed.unconfirmed.size).toBe(0)
  })

  test('is forgotten when it is dispatched, and when another replica decides of it', async () => {
    await bed.publish('one')
    await pass()
    expect(bed.unconfirmed.size).toBe(1)
    bed.counters.remove(bed.logged(bed.appended[0] ?? ''))
    await pass()
    expect(bed.unconfirmed.size).toBe(0)
    bed.refusals.set('two', 'Forbidden')
    await bed.publish('two')
    await expect(pass()).rejects.toThrow('failed to write the status')
    bed.reconciler.release('acme')
    expect(bed.unconfirmed.size).toBe(0)
  })
})

test('an event of which one delivery has ended before another is known is not said to be dispatched', async () => {
  await bed.publish('one')
  bed.appended.push = (...names) => {
    for (const name of names) {
      bed.counters.remove(bed.logged(name))
      bed.logged(name)
    }
    return names.length
  }
  await pass()
  expect(await bed.stateOf('one')).toBe('accepted')
})
