import { expect, test } from 'vitest'
import { unlessAborted } from './time.ts'

test('gives what the work gives, or throws what it throws', async () => {
  const { signal } = new AbortController()
  expect(await unlessAborted(signal, Promise.resolve(1))).toBe(1)
  await expect(unlessAborted(signal, Promise.reject(new Error('no')))).rejects.toThrow('no')
})

test('throws the reason of the signal at once, before and while it waits', async () => {
  const giveUp = new AbortController()
  const never = new Promise(() => undefined)
  const waiting = unlessAborted(giveUp.signal, never)
  giveUp.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  await expect(unlessAborted(giveUp.signal, never)).rejects.toThrow('enough')
})

test('lets the work fail later without anybody being told', async () => {
  const giveUp = new AbortController()
  const { promise, reject } = Promise.withResolvers<never>()
  const waiting = unlessAborted(giveUp.signal, promise)
  giveUp.abort(new Error('enough'))
  reject(new Error('late'))
  await expect(waiting).rejects.toThrow('enough')
})
