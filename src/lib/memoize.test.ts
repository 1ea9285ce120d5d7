import { expect, test } from 'vitest'
import { memoize } from './memoize.ts'

function counted(max: number) {
  const computed: string[] = []
  const lengthOf = memoize(max, (key) => {
    computed.push(key)
    return key === '' ? undefined : key.length
  })
  return { computed, lengthOf }
}

test('a result is computed once', () => {
  const { computed, lengthOf } = counted(2)
  expect(['a', 'bb', 'a', 'bb'].map(lengthOf)).toEqual([1, 2, 1, 2])
  expect(computed).toEqual(['a', 'bb'])
})

test('beyond its size it starts over', () => {
  const { computed, lengthOf } = counted(2)
  for (const key of ['a', 'bb', 'ccc', 'ccc', 'a']) lengthOf(key)
  expect(computed).toEqual(['a', 'bb', 'ccc', 'a'])
})

test('no result is computed again', () => {
  const { computed, lengthOf } = counted(2)
  expect(['', ''].map(lengthOf)).toEqual([undefined, undefined])
  expect(computed).toEqual(['', ''])
})
