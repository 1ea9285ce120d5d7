/** Commands of pages that no other test runs are at least valid shell, and print what they promise. */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { commandsOf } from './e2e/page-script.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const pages = globSync(['*.md', 'charts/*/README.md', 'docs/**/*.md'], { cwd: ROOT }).flatMap((page) => {
  const text = readFileSync(`${ROOT}${page}`, 'utf8')
  const of = (['sh', 'shell'] as const).filter((language) => text.includes(`\`\`\`${language}\n`))
  const blocks = of.flatMap((language) => commandsOf(text, undefined, language))
  return blocks.length > 0 ? [{ page, blocks }] : []
})
const lines = pages.flatMap(({ page, blocks }) =>
  blocks.flatMap((block) => block.split('\n').map((line) => ({ page, line }))),
)

test('there are pages with commands', () => {
  expect(pages.length).toBeGreaterThan(40)
})

test.for(pages)('$page: bash reads every block', ({ blocks }) => {
  for (const block of blocks) {
    const { status, stderr } = spawnSync('bash', ['-n'], { input: block, encoding: 'utf8' })
    expect({ block, status, stderr }).toEqual({ block, status: 0, stderr: '' })
  }
})

test('who reads logs by a selector gets all of them: kubectl shows the last ten lines unless told', () => {
  const cut = lines.filter(({ line }) => /kubectl.* logs .*-l /.test(line) && !line.includes('--tail='))
  expect(cut).toEqual([])
})

test('no line of a log that jq reads begins with the name of its pod', () => {
  const broken = lines.filter(({ line }) => /--all-pods|--prefix/.test(line) && /\| *jq/.test(line))
  expect(broken).toEqual([])
})

test('nobody is told to look for a kind together with one that the cluster may lack', () => {
  const lacking =
    /get (\S+,)?(servicemonitors?|certificates?|prometheusrules?),|get \S+,(servicemonitors?|certificates?|prometheusrules?)\b/
  expect(lines.filter(({ line }) => lacking.test(line))).toEqual([])
})
