import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { shellWord } from './report.ts'

test.for([
  '/home/somebody/davit/.davit/acme.key',
  '/home/some body/davit',
  "/home/o'neill/$(whoami)/`id`/\\",
  '',
])('a shell reads %j as it is', (text) => {
  expect(execFileSync('sh', ['-c', `printf %s ${shellWord(text)}`], { encoding: 'utf8' })).toBe(text)
})

test('what needs no quotes has none', () => {
  expect(shellWord('/tmp/a-b_c.d:1')).toBe('/tmp/a-b_c.d:1')
})
