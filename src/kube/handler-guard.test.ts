import { expect, test } from 'vitest'
import { settle } from '../../test/support/fake-clock.ts'
import { HandlerGuard } from './informer.ts'

test('what a handler throws or rejects with is logged with the object that it was called for, and counted', async () => {
  const lines: unknown[] = []
  const say = (...line: unknown[]) => void lines.push(line)
  const guard = new HandlerGuard('things', { info: say, warn: say, error: say })
  const [thrown, rejected] = [new Error('thrown'), new Error('rejected')]
  guard.run('org/a', () => {
    throw thrown
  })
  guard.run('org/b', () => Promise.reject(rejected))
  guard.run('org/c', () => Promise.resolve())
  guard.run('org/d', () => undefined)
  await settle()
  expect(lines).toEqual([
    [
      'watch_handler_failed',
      'failed to handle a change',
      { resource: 'things', key: 'org/a', error: thrown },
    ],
    [
      'watch_handler_failed',
      'failed to handle a change',
      { resource: 'things', key: 'org/b', error: rejected },
    ],
  ])
  expect(guard.errors).toBe(2)
})
