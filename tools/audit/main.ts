/**
 * `npm run audit`: looks for known vulnerabilities in all dependencies, with npm and govulncheck. Prints one line per audit and the output
 * of failed ones, and exits with 1 if any failed. Not a part of the checks: a vulnerability becomes known without a change here.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Audit, auditsOf } from './audits.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const LIMIT_MS = 10 * 60_000
const GO = { CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '-mod=readonly' }

const files = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).split('\n')
const audits = auditsOf(files, (path) => readFileSync(join(ROOT, path), 'utf8'))
const failed = audits.filter((audit) => !run(audit))
process.exitCode = failed.length === 0 ? 0 : 1

function run({ title, folder, command: [program, ...args] }: Audit): boolean {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: join(ROOT, folder),
    env: { ...process.env, ...GO },
    encoding: 'utf8',
    timeout: LIMIT_MS,
  })
  const isClean = status === 0
  process.stdout.write(`${isClean ? 'ok    ' : 'FAILED'} ${title}\n`)
  if (!isClean) process.stdout.write(`${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}\n`)
  return isClean
}
