import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { ActiveAttempts } from './sender.ts'

function recorded() {
  const givenUp: string[] = []
  return { givenUp, active: new ActiveAttempts<string>((name) => givenUp.push(name)) }
}

test('a signal gives up on what is under way for it, and on nothing else', () => {
  const { active, givenUp } = recorded()
  const [one, other] = [new AbortController(), new AbortController()]
  active.add('a', one.signal)
  const ended = active.add('b', one.signal)
  active.add('c', other.signal)
  active.add('d', undefined)
  ended()
  active.add('e', one.signal)
  one.abort()
  expect(givenUp.sort()).toEqual(['a', 'e'])
})

test('an attempt that took the place of one that had ended is its own', () => {
  const { active, givenUp } = recorded()
  const [one, other] = [new AbortController(), new AbortController()]
  active.add('a', one.signal)()
  active.add('b', other.signal)
  one.abort()
  expect(givenUp).toEqual([])
  other.abort()
  expect(givenUp).toEqual(['b'])
})

test('one that leaves twice takes no place of another one', () => {
  const { active, givenUp } = recorded()
  const leave = active.add('a', undefined)
  leave()
  leave()
  active.add('b', undefined)
  active.add('c', undefined)
  leave()
  active.cancelAll()
  expect(givenUp).toEqual(['b', 'c'])
})

test('all are given up, though each leaves meanwhile', () => {
  const ends = new Map<string, () => void>()
  const givenUp: string[] = []
  const active = new ActiveAttempts<string>((name) => {
    givenUp.push(name)
    ends.get(name)?.()
  })
  for (const name of ['a', 'b', 'c']) ends.set(name, active.add(name, undefined))
  active.cancelAll()
  active.cancelAll()
  expect(givenUp).toEqual(['a', 'b', 'c'])
})

test('however many there are, a signal has one listener', () => {
  const { active } = recorded()
  const { signal } = new AbortController()
  for (let n = 0; n < 100; n += 1) active.add(String(n), signal)
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
})
