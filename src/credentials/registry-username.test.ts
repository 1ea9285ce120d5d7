import { expect, test } from 'vitest'
import { registryUsernameProblem } from './spec.ts'

test.each(['acme-bot', 'robot$project+name', '_json_key', 'me@example.com', 'a b', '\u{1f511}'.repeat(255)])(
  '%s is taken',
  (username) => {
    expect(registryUsernameProblem(username)).toBeUndefined()
  },
)

test.each([
  ['', 'empty'],
  ['a:b', 'colon'],
  [':', 'colon'],
  ['a\nb', 'control'],
  ['a\u0000', 'control'],
  ['\u{1f511}'.repeat(256), '255 characters'],
])('%j is refused: %s', (username, want) => {
  expect(registryUsernameProblem(username)).toContain(want)
})
