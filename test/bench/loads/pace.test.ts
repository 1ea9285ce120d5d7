import { expect, test } from 'vitest'
import { closedLoop } from './pace.ts'

test('a closed loop of so many events does each of them once', async () => {
  const done: number[] = []
  await closedLoop({ publishers: 3, seconds: 60, events: 10 }, async (n) => {
    await Promise.resolve()
    done.push(n)
  })
  expect(done.toSorted((a, b) => a - b)).toEqual([...Array(10).keys()])
})

test('publishers that waited for room when the last event was done do no more', async () => {
  const room = Promise.withResolvers<void>()
  let count = 0
  const looping = closedLoop(
    { publishers: 4, seconds: 60, events: 2, room: () => room.promise },
    async () => {
      count += 1
    },
  )
  room.resolve()
  await looping
  expect(count).toBe(2)
})
