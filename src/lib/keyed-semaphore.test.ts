import { beforeEach, expect, test } from 'vitest'
import { KeyedSemaphore, Semaphore } from './semaphore.ts'

let begun: string[]
let ends: (() => void)[]

beforeEach(() => {
  begun = []
  ends = []
})

/** Work that goes on until the test ends it, in the order of its beginning. */
const work = (name: string) => () => {
  begun.push(name)
  return new Promise<string>((resolve) => ends.push(() => resolve(name)))
}

const full = () => Object.assign(new Error('full'), OVERLOADED)
const OVERLOADED = { code: 'overloaded' }

test('as much as may be is under way, some waits in the order in which it came, and what is more is refused', async () => {
  const turns = new Semaphore({ atOnce: 2, waiting: { max: 2, full } })
  const all = ['a', 'b', 'c', 'd'].map((name) => turns.run(work(name)))
  await expect(turns.run(work('e'))).rejects.toMatchObject(OVERLOADED)
  expect(begun).toEqual(['a', 'b'])
  ends[1]?.()
  expect(await all[1]).toBe('b')
  await Promise.resolve()
  expect(begun).toEqual(['a', 'b', 'c'])
  expect(turns.isIdle).toBe(false)
  ends[0]?.()
  await all[0]
  ends[2]?.()
  await all[2]
  ends[3]?.()
  expect(await Promise.all(all)).toEqual(['a', 'b', 'c', 'd'])
  expect(turns.isIdle).toBe(true)
})

test('work that fails gives its place to the next', async () => {
  const turns = new Semaphore({ atOnce: 1, waiting: { max: 1, full } })
  const failing = turns.run(async () => {
    throw new Error('failed')
  })
  const next = turns.run(work('next'))
  await expect(failing).rejects.toThrow('failed')
  ends[0]?.()
  expect(await next).toBe('next')
  expect(turns.isIdle).toBe(true)
})

test('one name that asks for much keeps no other waiting', async () => {
  const turns = new KeyedSemaphore({ atOnce: 1, waiting: { max: 1, full } })
  const busy = [turns.run('busy', work('1')), turns.run('busy', work('2'))]
  await expect(turns.run('busy', work('3'))).rejects.toMatchObject(OVERLOADED)
  const other = turns.run('other', work('other'))
  expect(begun).toEqual(['1', 'other'])
  for (const end of ends) end()
  await busy[0]
  ends[2]?.()
  expect(await Promise.all([...busy, other])).toEqual(['1', '2', 'other'])
})
