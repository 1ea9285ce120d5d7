import { expect, test } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import type { EventOutline } from '../../apis/webhook-event.ts'
import { WriteBackoff } from './controller.ts'

const LIMITS = { firstMs: 1000, longestMs: 4000 }

function bed() {
  const clock = new FakeClock()
  return { clock, refused: new WriteBackoff({ clock, random: fixedRandom(1) }, LIMITS) }
}

function event(uid: string, namespace = 'acme'): EventOutline {
  const metadata = {
    name: uid,
    namespace,
    uid,
    resourceVersion: '1',
    creationTimestamp: '2026-01-31T12:00:00Z',
  }
  return { metadata, spec: { type: 'test.event' } }
}

const uids = (events: EventOutline[]) => events.map(({ metadata }) => metadata.uid)

test('the wait of one grows with each refusal, until it is done', () => {
  const { clock, refused } = bed()
  const waits: number[] = []
  for (let n = 0; n < 4; n += 1) {
    refused.add(event('a'))
    waits.push(refused.waitOf(event('a')))
    clock.advance(waits[n] ?? 0)
    expect(refused.waitOf(event('a'))).toBe(0)
  }
  expect(waits).toEqual([1000, 2000, 4000, 4000])
  refused.forget('a')
  refused.add(event('a'))
  expect(refused.waitOf(event('a'))).toBe(1000)
  refused.forget('a')
  expect(refused.size).toBe(0)
})

test('what was never refused comes first, in the order given, then what has been due for longest', () => {
  const { clock, refused } = bed()
  for (const uid of ['c', 'a', 'b']) {
    refused.add(event(uid))
    clock.advance(100)
  }
  clock.advance(850)
  const all = ['a', 'b', 'c', 'new-2', 'new-1'].map((uid) => event(uid))
  expect(uids(refused.due(all))).toEqual(['new-2', 'new-1', 'c', 'a'])
})

test('each of many gets its turn, and never more than twenty are refused within two seconds', () => {
  const { clock, refused } = bed()
  const all = Array.from({ length: 100 }, (_, n) => event(`e${n}`))
  for (const one of all) refused.add(one)
  const tried = new Map<string, number>()
  const at: number[] = []
  for (let step = 0; step < 600; step += 1) {
    clock.advance(100)
    for (const one of refused.due(all)) {
      if (refused.waitOf(one) > 0) continue
      refused.add(one)
      at.push(clock.monotonic())
      tried.set(one.metadata.uid, (tried.get(one.metadata.uid) ?? 0) + 1)
    }
  }
  expect(at.length).toBeGreaterThan(500)
  expect(at.length).toBeLessThanOrEqual((20 * 60_000) / 2000)
  for (const { metadata } of all) expect(tried.get(metadata.uid)).toBeGreaterThanOrEqual(4)
})

test('refusals of one organization hold up no other', () => {
  const { clock, refused } = bed()
  refused.add(event('other', 'globex'))
  for (let n = 0; n < 100; n += 1) refused.add(event(`e${n}`))
  clock.advance(1000)
  expect(refused.waitOf(event('other', 'globex'))).toBe(0)
  expect(refused.waitOf(event('e0'))).toBe(1000)
})
