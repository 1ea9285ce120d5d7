import { expect, test } from 'vitest'
import { type SiteFiles, sitePathOf, stagePage } from './stage.ts'

const PAGES = [
  'docs/README.md',
  'docs/guides/install.md',
  'docs/concepts/security.md',
  'docs/contributing/decisions/README.md',
  'test/reports/rules.md',
  'src/webhooks/log/README.md',
  'CHANGELOG.md',
  'SECURITY.md',
]
const FILES = ['examples/endpoint.yaml', 'docs/guides/dashboard.svg']
const files: SiteFiles = {
  pages: new Map(PAGES.map((path) => [path, sitePathOf(path) ?? ''])),
  isFile: (path) => FILES.includes(path),
}

test.each([
  ['docs/README.md', 'index.md'],
  ['docs/guides/install.md', 'guides/install.md'],
  ['docs/contributing/decisions/README.md', 'contributing/decisions/index.md'],
  ['test/reports/rules.md', 'contributing/reports/rules.md'],
  ['src/webhooks/log/README.md', 'contributing/source/webhooks/log.md'],
  ['CHANGELOG.md', 'releases/changelog.md'],
  ['SECURITY.md', 'contributing/security.md'],
  ['examples/endpoint.yaml', undefined],
  ['charts/davit/README.md', undefined],
])('%s is at %s', (path, page) => {
  expect(sitePathOf(path)).toBe(page)
})

test.each([
  ['[a](../concepts/security.md#threats)', '[a](../concepts/security.md#threats)'],
  ['[a](../README.md)', '[a](../index.md)'],
  ['[a](../contributing/decisions)', '[a](../contributing/decisions/index.md)'],
  ['[a](../../test/reports/rules.md)', '[a](../contributing/reports/rules.md)'],
  ['[a](../../CHANGELOG.md) [b](install.md)', '[a](../releases/changelog.md) [b](./install.md)'],
  ['[a](../../SECURITY.md#scope)', '[a](../contributing/security.md#scope)'],
  ['[a](../../examples/endpoint.yaml)', '[a](/files/examples/endpoint.yaml)'],
  ['![a](dashboard.svg)', '![a](dashboard.svg)'],
  ['[a](https://example.com/a.md) [b](#here)', '[a](https://example.com/a.md) [b](#here)'],
])('%s leads to the same on the site', (line, staged) => {
  expect(stagePage('docs/guides/install.md', line, files).text).toBe(staged)
})

test('names the files that the site needs in addition to its pages', () => {
  const text = '[a](../../examples/endpoint.yaml) [b](../../examples/endpoint.yaml) [c](install.md)'
  expect(stagePage('docs/guides/install.md', text, files).attachments).toEqual(['examples/endpoint.yaml'])
})

test('leaves code alone', () => {
  const text = '```md\n[a](../../examples/none.yaml)\n```\n[b](install.md)'
  expect(stagePage('docs/guides/install.md', text, files).text).toBe(
    '```md\n[a](../../examples/none.yaml)\n```\n[b](./install.md)',
  )
})

test.each(['../../examples', 'none.md'])('rejects a link to %s, which is no file', (address) => {
  expect(() => stagePage('docs/guides/install.md', `[a](${address})`, files)).toThrow(
    `docs/guides/install.md links to ${address}, which is not a file`,
  )
})
