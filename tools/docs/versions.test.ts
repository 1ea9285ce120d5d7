import { expect, test } from 'vitest'
import { docsVersionOf, startPage, versionsAmong } from './versions.ts'

test('a patch has the pages of its minor version', () => {
  expect(docsVersionOf('0.12.3')).toBe('0.12')
})

test('versions are sorted by number, the newest first, and nothing else is one', () => {
  expect(versionsAmong(['0.9', 'index.html', '0.10', 'assets', '1.0', '0.1.2'])).toEqual([
    '1.0',
    '0.10',
    '0.9',
  ])
})

test('the start page leads to the newest version, wherever the site is', () => {
  expect(startPage('0.10')).toContain('url=./0.10/')
})
