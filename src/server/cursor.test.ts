import { expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { fc } from '../../test/support/fast-check.ts'
import { Cursors } from './lists.ts'

const clock = new FakeClock()
const cursors = new Cursors(Buffer.from('key'), clock)
const LIST = ['deliveries', 'acme', 'uid', '', '']

test('a cursor gives back what it was made of, to whoever has the key', () => {
  const again = new Cursors(Buffer.from('key'), clock)
  fc.assert(
    fc.property(fc.string({ minLength: 1, maxLength: 70, unit: 'grapheme' }), (last) => {
      const cursor = cursors.make(LIST, last.toWellFormed())
      expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/)
      expect(again.read(LIST, cursor)).toBe(last.toWellFormed())
    }),
  )
})

test('a cursor leads nowhere but into its own list', () => {
  const cursor = cursors.make(LIST, 'msg_1')
  for (const list of [
    ['deliveries', 'umbrella', 'uid', '', ''],
    ['deliveries', 'acme', 'uid', 'succeeded', ''],
    ['deliveries', 'acme', 'uid', '', 'succeeded'],
    ['deliveries', 'acmeuid', '', '', ''],
    ['endpoints', 'acme'],
  ]) {
    expect(() => cursors.read(list, cursor)).toThrow(expect.objectContaining({ code: 'invalid' }))
  }
  const otherKey = new Cursors(Buffer.from('other'), clock)
  expect(() => otherKey.read(LIST, cursor)).toThrow(expect.objectContaining({ code: 'invalid' }))
})

test('no other text is a cursor: one character more, less or different, and it is refused', () => {
  const cursor = cursors.make(LIST, 'msg_1')
  const characters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. '
  for (let at = 0; at <= cursor.length; at += 1) {
    for (const character of characters) {
      if (cursor[at] === character) continue
      const changed = cursor.slice(0, at) + character + cursor.slice(at + 1)
      expect(() => cursors.read(LIST, changed)).toThrow(expect.objectContaining({ code: 'invalid' }))
    }
    if (at < cursor.length) expect(() => cursors.read(LIST, cursor.slice(0, at))).toThrow()
  }
  for (const text of ['', 'x', 'A'.repeat(600)]) expect(() => cursors.read(LIST, text)).toThrow()
})

test('a cursor expires after a day', () => {
  const time = new FakeClock()
  const own = new Cursors(Buffer.from('key'), time)
  const cursor = own.make(LIST, 'msg_1')
  time.advance(24 * 60 * 60 * 1000)
  expect(own.read(LIST, cursor)).toBe('msg_1')
  time.advance(1)
  expect(() => own.read(LIST, cursor)).toThrow(expect.objectContaining({ code: 'cursor_expired' }))
})
