/** The page about the command line names every command, and every setting of those that read settings of their own. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { checkVariables, receiverVariables, uninstallVariables } from '../src/cmd/config.ts'

const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const PAGE = readFileSync(new URL('../docs/reference/cli.md', import.meta.url), 'utf8')

/** By the first cell of a row, its second. */
function rows(form: RegExp): Map<string, string> {
  const cells = PAGE.split('\n').flatMap((line) => {
    const [, first = '', second = ''] = line.split('|').map((cell) => cell.trim().replaceAll('`', ''))
    return form.test(first) ? [[first, second] as const] : []
  })
  return new Map(cells)
}

test('has the commands of davit --help, in its order', () => {
  const { stdout } = spawnSync(process.execPath, [MAIN, '--help'], { encoding: 'utf8' })
  const commands = [...stdout.matchAll(/^ {2}([a-z]+) {2,}/gm)].map(([, name]) => `davit ${name}`)
  expect(commands).toContain('davit receiver')
  expect([...rows(/^davit [a-z]+$/).keys()]).toEqual(commands)
})

test('has the settings of the commands that have some of their own, and which are required', () => {
  const listed = rows(/^DAVIT_[A-Z_]+$/)
  const shapes = { ...receiverVariables.shape, ...checkVariables.shape, ...uninstallVariables.shape }
  expect([...listed.keys()]).toEqual(Object.keys(shapes))
  for (const [name, setting] of Object.entries(shapes))
    expect([name, listed.get(name) === 'required']).toEqual([name, !setting.safeParse(undefined).success])
})

test.each(['DAVIT_RECEIVER_SECRETS', 'DAVIT_CHECK_ORGANIZATION'] as const)(
  'has the default of %s',
  (name) => {
    const { [name]: setting } = { ...receiverVariables.shape, ...checkVariables.shape }
    expect(rows(/^DAVIT_[A-Z_]+$/).get(name)).toBe(setting.parse(undefined))
  },
)
