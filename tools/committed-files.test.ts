import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { takeCommitted } from './committed-files.mjs'

let root: string
let into: string
const put = (name: string, text: string) => writeFileSync(join(root, name), text)
const git = (...args: string[]) => {
  const who = ['-c', 'user.name=one', '-c', 'user.email=one@davit.test']
  execFileSync('git', [...who, ...args], { cwd: root, stdio: 'ignore' })
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'davit-committed-'))
  into = join(root, 'into')
  mkdirSync(into)
  mkdirSync(join(root, 'src'))
  put('src/a.ts', 'committed')
  put('other.ts', 'committed')
  git('init')
  git('add', 'src', 'other.ts')
  git('commit', '-m', 'One')
})
afterEach(() => rmSync(root, { recursive: true }))

it('what was committed is taken, and nothing else', () => {
  expect(takeCommitted(root, ['src'], into)).toEqual([])
  expect(readdirSync(into)).toEqual(['src'])
})

it('what was changed since, or is not committed, is named and not taken', () => {
  put('src/a.ts', 'changed')
  put('src/b.ts', 'new')
  put('other.ts', 'changed')
  expect(takeCommitted(root, ['src'], into)).toEqual([' M src/a.ts', '?? src/b.ts'])
  expect(readFileSync(join(into, 'src/a.ts'), 'utf8')).toBe('committed')
  expect(readdirSync(join(into, 'src'))).toEqual(['a.ts'])
})
