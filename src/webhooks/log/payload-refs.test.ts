import { expect, test } from 'vitest'
import { type FinishedDelivery, PayloadRefs } from './retention-index.ts'

function finished(name: string, succeeded: boolean): FinishedDelivery {
  const endpoint = { namespace: 'acme', name: 'billing', uid: 'uid' }
  return {
    endpoint,
    name,
    succeeded,
    completedAt: 0,
    bytes: 2048,
    version: 1,
    index: 0,
    objectVersion: 0,
    isRemoved: false,
    isAbandoned: false,
  }
}

test('a segment is held by the gravest of the objects that refer to it', () => {
  const refs = new PayloadRefs()
  const seen = () => refs.holders('segment')
  expect(seen()).toBe('none')
  refs.hold('acme/a', 'segment')
  refs.hold('acme/b', 'segment')
  expect(seen()).toBe('unfinished')
  refs.finished('acme/a', finished('a', true))
  expect(seen()).toBe('unfinished')
  refs.finished('acme/b', finished('b', false))
  expect(seen()).toBe('finished')
  expect(refs.finishedOf('segment').map(({ name }) => name)).toEqual(['a', 'b'])
  refs.release('acme/b')
  expect(seen()).toBe('succeeded')
  refs.release('acme/a')
  expect([seen(), refs.size, refs.finishedOf('segment')]).toEqual(['none', 0, []])
})

test('one that this process has left is in doubt again, and one that it is deleting is not', () => {
  const refs = new PayloadRefs()
  const ended = finished('a', true)
  refs.hold('acme/a', 'segment')
  refs.finished('acme/a', ended)
  expect(refs.unfinishedOf('segment')).toEqual([])
  ended.isRemoved = true
  expect([refs.holders('segment'), refs.unfinishedOf('segment')]).toEqual(['succeeded', []])
  ended.isAbandoned = true
  expect([refs.holders('segment'), refs.unfinishedOf('segment')]).toEqual(['unfinished', ['acme/a']])
  expect(refs.finishedOf('segment')).toEqual([])
})

test('a reference that is told again, after a crash or a lost answer, counts once', () => {
  const refs = new PayloadRefs()
  refs.hold('acme/a', 'segment')
  refs.finished('acme/a', finished('a', true))
  refs.hold('acme/a', 'segment')
  expect([refs.size, refs.holders('segment')]).toEqual([1, 'succeeded'])
  refs.release('acme/a')
  refs.release('acme/a')
  expect(refs.holders('segment')).toBe('none')
})

test('deliveries without a payload in the log hold nothing', () => {
  const refs = new PayloadRefs()
  refs.finished('acme/small', finished('small', true))
  refs.release('acme/small')
  expect(refs.size).toBe(0)
})

test('what refers to a segment that is gone is forgotten with it', () => {
  const refs = new PayloadRefs()
  refs.hold('acme/a', 'old')
  refs.hold('acme/b', 'old')
  refs.hold('acme/c', 'young')
  refs.forget('old')
  refs.forget('never there')
  expect([refs.size, refs.holders('old'), refs.holders('young')]).toEqual([1, 'none', 'unfinished'])
})
