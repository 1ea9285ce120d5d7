/** Whoever looks for a page finds it: each is on the list of pages. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const DOCS = new URL('../docs/', import.meta.url)

test('every page is on the list of pages', () => {
  const list = readFileSync(new URL('README.md', DOCS), 'utf8')
  const pages = readdirSync(DOCS).filter((name) => name.endsWith('.md') && name !== 'README.md')
  expect(pages.length).toBeGreaterThan(25)
  expect(pages.filter((page) => !list.includes(`](${page})`))).toEqual([])
})
