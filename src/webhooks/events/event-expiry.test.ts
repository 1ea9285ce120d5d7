import { expect, test } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import { type ApiCall, calling, FaultyApi } from '../../../test/support/faulty-api.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { eventOutline, webhookEvents } from '../../apis/webhook-event.ts'
import { ApiError } from '../../kube/client.ts'
import { SkewGuardedClock } from '../log/retention-loop.ts'
import { EventExpiry } from './controller.ts'
import { WebhookEventStore } from './store.ts'

const HOUR = 3_600_000

function bed() {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const api = new FaultyApi(store)
  const book = new WebhookEventStore()
  const complaints: unknown[] = []
  const onNotDeleted = (error: unknown) => void complaints.push(error)
  const time = new SkewGuardedClock(clock)
  const expiry = new EventExpiry({
    store: book,
    writer: api,
    clock,
    random: fixedRandom(1),
    time,
    onNotDeleted,
  })
  /** One that has finished now by a clock that is ahead by so much, and stays for an hour. */
  const finish = async (name: string, aheadMs = 0) => {
    const metadata = { namespace: 'acme', name }
    const spec = { type: 'test.event', dataText: '1', ttlSecondsAfterFinished: 3600 }
    await store.create(webhookEvents, { metadata, spec })
    const status = { state: 'dispatched', finishedAt: new Date(clock.now() + aheadMs).toISOString() }
    const raw = await store.patch(webhookEvents, metadata, { status }, { subresource: 'status' })
    book.apply(eventOutline.parse(raw))
  }
  const names = () => store.all(webhookEvents).map(({ metadata }) => metadata.name)
  return { clock, api, book, expiry, complaints, finish, names }
}

function deleting(name: string): (call: ApiCall) => boolean {
  return (call) => calling('delete', webhookEvents)(call) && call.name === name
}

test('an event goes when its time after its end is over, and not before', async () => {
  const { clock, expiry, finish, names } = bed()
  await finish('one')
  expect(await expiry.pass('acme')).toBe(HOUR)
  expect(await expiry.pass('other')).toBeUndefined()
  clock.advance(HOUR - 1)
  expect([await expiry.pass('acme'), names()]).toEqual([1, ['one']])
  clock.advance(1)
  expect([await expiry.pass('acme'), names()]).toEqual([undefined, []])
})

test('a clock that is ahead for a while lets none go early, nor one that was behind when it ended', async () => {
  const { clock, expiry, finish, names } = bed()
  await finish('one', -24 * HOUR)
  for (const wallBy of [0, 24 * HOUR, -24 * HOUR]) {
    clock.setWallBy(wallBy)
    await expiry.pass('acme')
  }
  expect(names()).toEqual(['one'])
  clock.advance(HOUR)
  await expiry.pass('acme')
  expect(names()).toEqual([])
})

const REFUSED = new ApiError('Forbidden', 'a policy says no')

test('one that cannot be deleted is tried again after a minute, is told of, and holds up no other', async () => {
  const { clock, api, expiry, complaints, finish, names } = bed()
  await finish('one')
  await finish('two')
  clock.advance(HOUR)
  api.fail(deleting('one'), { before: REFUSED })
  expect([await expiry.pass('acme'), names()]).toEqual([60_000, ['one']])
  clock.advance(59_999)
  expect([await expiry.pass('acme'), names()]).toEqual([1, ['one']])
  expect(complaints).toEqual([REFUSED])
  clock.advance(1)
  expect([await expiry.pass('acme'), names()]).toEqual([undefined, []])
})

test('a pass ends soon, tells what failed, and the next goes on with the others', async () => {
  const { clock, api, expiry, complaints, finish, names } = bed()
  for (const name of ['one', 'two', 'three']) await finish(name)
  clock.advance(HOUR)
  for (const name of ['one', 'two']) {
    const isIt = deleting(name)
    const slow = (call: ApiCall) => {
      if (isIt(call)) clock.advance(5000)
      return isIt(call)
    }
    api.fail(slow, { before: REFUSED })
  }
  for (const left of [2, 1]) {
    expect(await expiry.pass('acme')).toBe(0)
    expect(complaints).toHaveLength(3 - left)
  }
  expect(await expiry.pass('acme')).toBe(55_000)
  expect(names().sort()).toEqual(['one', 'two'])
})

test('of many that cannot be deleted few are tried in a while, and one that expires is deleted at once', async () => {
  const { clock, api, expiry, finish, names } = bed()
  const many = Array.from({ length: 60 }, (_, n) => `kept-${n}`)
  for (const name of many) await finish(name)
  clock.advance(60_000)
  await finish('late')
  clock.advance(HOUR - 60_000)
  const isKept = (call: ApiCall) => call.verb === 'delete' && call.name !== 'late'
  for (let n = 0; n < 200; n += 1) api.fail(isKept, { before: REFUSED })
  await expiry.pass('acme')
  clock.advance(60_000)
  const before = api.calls.filter(isKept).length
  expect(await expiry.pass('acme')).toBe(2000)
  expect(api.calls.filter(isKept).length - before).toBe(20)
  expect(names()).not.toContain('late')
})

test('what somebody else has deleted is forgotten', async () => {
  const { clock, api, book, expiry, complaints, finish } = bed()
  await finish('one')
  await api.delete(webhookEvents, { namespace: 'acme', name: 'one' })
  clock.advance(HOUR)
  expect(await expiry.pass('acme')).toBeUndefined()
  expect([[...book.expiringIn('acme')], complaints]).toEqual([[], []])
})
