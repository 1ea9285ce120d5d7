import { expect, it } from 'vitest'
import { describeKeys, keyIn } from './keys.ts'

it.each([
  { given: 'h', want: 'instructions' },
  { given: 'H', want: 'instructions' },
  { given: '?', want: 'instructions' },
  { given: 'p', want: 'pause' },
  { given: 'q', want: 'quit' },
  { given: '\u0003', want: 'quit' },
  { given: '\u0003\u0003', want: 'quit' },
  { given: '\u001a', want: 'suspend' },
  { given: 'x', want: undefined },
  { given: '\u001b[A', want: undefined },
  { given: 'jq -r .kubeconfig .davit/playground.json', want: undefined },
  { given: 'constructor', want: undefined },
])('the key in $given is $want', ({ given, want }) => {
  expect(keyIn(given)).toBe(want)
})

it.each([
  {
    given: { areRead: true, file: '.davit/instructions.txt' },
    want: 'p: pause   q: quit   h: instructions, also in .davit/instructions.txt',
  },
  { given: { areRead: true }, want: 'p: pause   q: quit' },
  {
    given: { areRead: false, file: '/instructions.txt' },
    want: 'Ctrl-C: quit   instructions: /instructions.txt',
  },
])('the keys are described as $want', ({ given, want }) => {
  expect(describeKeys(given, false)).toBe(want)
  expect(describeKeys(given, true)).toBe(want.replace('p: pause', 'p: continue'))
})
