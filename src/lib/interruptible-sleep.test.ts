import { expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { InterruptibleSleep } from './time.ts'

function begun() {
  const clock = new FakeClock()
  const pause = new InterruptibleSleep(clock)
  const abort = new AbortController()
  const ended: string[] = []
  const wait = (name: string) => void pause.sleep(1000, abort.signal).then(() => ended.push(name))
  return { clock, pause, abort, ended, wait }
}

it('ends after its time, and not before', async () => {
  const { clock, ended, wait } = begun()
  wait('one')
  await clock.elapse(999)
  expect(ended).toEqual([])
  await clock.elapse(1)
  expect(ended).toEqual(['one'])
})

it('is cut short when woken, and the next one is not', async () => {
  const { clock, pause, ended, wait } = begun()
  wait('one')
  pause.wake()
  await settle()
  expect(ended).toEqual(['one'])
  expect(clock.pending).toBe(0)
  wait('two')
  await clock.elapse(999)
  expect(ended).toEqual(['one'])
})

it('does not begin when it was woken before, however often, and the one after it does', async () => {
  const { clock, pause, ended, wait } = begun()
  pause.wake()
  pause.wake()
  wait('one')
  await settle()
  expect(ended).toEqual(['one'])
  wait('two')
  await clock.elapse(999)
  expect(ended).toEqual(['one'])
})

it('ends when it is given up, and leaves no timer', async () => {
  const { clock, abort, ended, wait } = begun()
  wait('one')
  abort.abort()
  await settle()
  expect(ended).toEqual(['one'])
  expect(clock.pending).toBe(0)
  wait('two')
  await settle()
  expect(ended).toEqual(['one', 'two'])
})
