import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { VERSION } from './lib/version.ts'

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))

function davit(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    encoding: 'utf8',
    env: { DAVIT_LOG_LEVEL: 'loud' },
  })
  return { status, stdout, stderr }
}

test('--help and --version answer on standard output', () => {
  for (const option of ['--help', '-h']) {
    const { status, stdout, stderr } = davit(option)
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/^usage: davit COMMAND\n.*\n {2}controller +deliver webhooks.* {2}config +check/s)
  }
  expect(davit('--version')).toEqual({ status: 0, stdout: `${VERSION}\n`, stderr: '' })
})

test.each([
  { args: [], says: /^usage: davit COMMAND/ },
  { args: ['contoller'], says: /^davit: unknown command contoller\nRun davit --help/ },
  { args: ['toString'], says: /^davit: unknown command toString\n/ },
  { args: ['api', '--port=1'], says: /^davit: unexpected argument --port=1\n/ },
  { args: ['api'], says: /^davit: invalid configuration \(1 error\):\n {2}DAVIT_LOG_LEVEL="loud": must be/ },
])('$args ends with 2 and says why', ({ args, says }) => {
  const { status, stdout, stderr } = davit(...args)
  expect([status, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(says)
})
