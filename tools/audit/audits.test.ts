import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { auditsOf } from './audits.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const committed = () => execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).split('\n')

test('the packages of the image are audited more strictly than those of tools', () => {
  const commands = auditsOf(['package-lock.json', 'site/package-lock.json'], () => '').map(
    ({ folder, command }) => `${folder}: ${command.join(' ')}`,
  )
  expect(commands).toEqual([
    '.: npm audit --omit=dev --audit-level=moderate',
    '.: npm audit --audit-level=high',
    'site: npm audit --audit-level=high',
  ])
})

test.each([
  { module: 'module a\n\ntool example.com/cmd/a\n', packages: 'tool' },
  { module: 'module a\n\ntool (\n\texample.com/cmd/a\n)\n', packages: 'tool' },
  { module: 'module a\n\nrequire example.com/toolkit v1.0.0\n', packages: './...' },
])('a Go module is audited by what is built of it', ({ module, packages }) => {
  const [, audit] = auditsOf(['tools/a/go.mod'], () => module)
  expect(audit).toEqual({
    title: 'Go modules of tools/a',
    folder: 'tools/audit',
    command: ['go', 'tool', 'govulncheck', '-C', '../../tools/a', packages],
  })
})

test('every lock file and every Go module of the repository is audited, but the one of which nothing is built', () => {
  const files = committed()
  const audits = auditsOf(files, (path) => readFileSync(join(ROOT, path), 'utf8'))
  const covered = audits.map(({ folder, command }) =>
    command[0] === 'go' ? (command[4] ?? '').replace('../../', '') : folder,
  )
  const folders = files
    .filter((path) => /(^|\/)(package-lock\.json|go\.mod)$/.test(path))
    .map((path) => path.replace(/\/?[^/]*$/, '') || '.')
  expect(folders.filter((folder) => !covered.includes(folder))).toEqual(['tools/chart-kinds'])
  for (const { folder } of audits) expect(existsSync(join(ROOT, folder))).toBe(true)
})
