import { expect, test } from 'vitest'
import { RecentSet } from './lru.ts'

test('beyond its size the oldest goes, and adding again makes it young', () => {
  const recent = new RecentSet(2)
  for (const value of ['a', 'b', 'a', 'c']) recent.add(value)
  expect(['a', 'b', 'c'].filter((value) => recent.has(value))).toEqual(['a', 'c'])
  recent.delete('a')
  expect(recent.has('a')).toBe(false)
})
