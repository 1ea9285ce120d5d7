/** Every page is on the list of pages. */
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const DOCS = new URL('../docs/', import.meta.url)

test('every page is on the list of pages', () => {
  const list = readFileSync(new URL('README.md', DOCS), 'utf8')
  const pages = globSync('*/*.md', { cwd: fileURLToPath(DOCS) })
  expect(pages.length).toBeGreaterThan(25)
  expect(pages.filter((page) => !list.includes(`](${page})`))).toEqual([])
})

test('every decision is on the list of decisions, by its number and with its title', () => {
  const folder = new URL('contributing/decisions/', DOCS)
  const pages = readdirSync(folder).filter((name) => name !== 'README.md')
  const want = pages.sort().map((page, i) => {
    const [, number, title] = /^# (\d+)\. (.+)$/m.exec(readFileSync(new URL(page, folder), 'utf8')) ?? []
    expect(`${number} ${page.slice(0, 4)}`).toBe(`${i + 1} ${String(i + 1).padStart(4, '0')}`)
    return `${number}. [${title}](${page})`
  })
  const list = readFileSync(new URL('README.md', folder), 'utf8')
  expect(list.split('\n').filter((line) => /^\d/.test(line))).toEqual(want)
})
