import { expect, test } from 'vitest'
import { proseOf } from './markdown.ts'
import { findingsIn, RULES } from './rules.ts'

test.each(RULES)('$finds is found: use $use', ({ finds, use }) => {
  expect(findingsIn(finds).join()).toContain(use)
})

test.each([
  'This holds across pod crashes, upgrades and API server outages.',
  'If Davit crashes during an attempt, it repeats the attempt with the same ID, so receivers can deduplicate.',
  'Davit does not deliver to private addresses unless the cluster operator allows them.',
  'There is no limit on the number of organizations.',
  'The lease is no longer valid.',
  'It waits so that the others can finish, and retries so long as the lease is valid.',
  'The attempt failed with "connection refused".',
  'The object has not changed since.',
  'Run the command where the chart is unpacked.',
])('%s is English', (text) => {
  expect(findingsIn(text)).toEqual([])
})

test('a sentence of more than thirty words is found, and two that have as many together are not', () => {
  const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ')
  expect(findingsIn(`${words(31)}.`)).toEqual([expect.stringContaining('31 words')])
  expect(findingsIn(`Some ${words(29)}. Some ${words(29)}.`)).toEqual([])
})

test('a page is read without code, addresses and HTML, and tables cell by cell', () => {
  const page = [
    '# Mend `it anew`',
    '',
    'A line',
    'goes [on](https://example.com/anew) here.',
    '',
    '```sh',
    'anew',
    '```',
    '',
    '| Name | Meaning |',
    '| --- | --- |',
    '| `anew` | again |',
  ].join('\n')
  expect(proseOf(page)).toEqual([
    { line: 1, text: 'Mend Code' },
    { line: 3, text: 'A line goes on here.' },
    { line: 10, text: 'Name' },
    { line: 10, text: 'Meaning' },
    { line: 12, text: 'Code' },
    { line: 12, text: 'again' },
  ])
})
