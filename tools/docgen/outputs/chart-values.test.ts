import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const PAGE = readFileSync(new URL('../../../docs/reference/helm-values.md', import.meta.url), 'utf8')

const rows = PAGE.split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.slice(2, -2).split(' | '))
  .map((cells) => ({ value: cells[0] ?? '', about: cells.at(-1) ?? '' }))

test('every value is said so that its row is enough, away from those around it', () => {
  expect(rows.length).toBeGreaterThan(140)
  const leaning = /^((Make|Keep|Install) (it|them|one)\b|(Its|The same|Annotations\.|They|It) ?\b|Who issues)/
  expect(
    rows.filter(({ about }) => leaning.test(about) || /Required with it|those mails/.test(about)),
  ).toEqual([])
})

test('no two values say the same, but those of both roles', () => {
  const descriptions = rows.map(({ about }) => about)
  expect(descriptions.filter((about, index) => descriptions.indexOf(about) !== index)).toEqual([])
})

test('links are links', () => {
  expect(PAGE).not.toMatch(/\\\[|\\\]/)
  expect(PAGE).toContain('[guides/build-the-image.md](../guides/build-the-image.md)')
  expect(PAGE).toContain('[Bake image](../concepts/bakes.md#bake-image)')
})
