// Runs every check that does not run Davit: `npm run check`. Prints one line per check and the output of failed ones, and exits
// with 1 if any failed. `--report <file>` writes the counts as JSON.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const BINS = join(ROOT, 'node_modules', '.bin')
const CHECK_LIMIT_MS = 10 * 60_000

const VITEST = ['node', 'node_modules/vitest/vitest.mjs', 'run', '--project', 'unit', '--reporter=dot']

/** Links to files and headings of this repository; external addresses are not requested. */
const LINKS = ['--frail', '--quiet', '--no-stdout', '--use', 'validate-links=repository:false']
LINKS.push(
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'charts/davit/README.md',
  'docs',
  'test/reports',
)

/** Name and command; the programs are in node_modules. */
const CHECKS = [
  { name: 'types', command: ['tsc'] },
  { name: 'lint and format', command: ['biome', 'check', '--error-on-warnings', '.'] },
  { name: 'architecture', command: [...VITEST, 'test/architecture.test.ts', 'test/docs-index.test.ts'] },
  { name: 'dead code', command: ['knip', '--no-config-hints'] },
  { name: 'links of pages', command: ['remark', ...LINKS] },
  { name: 'generated files', command: ['node', 'tools/docgen/generate.ts', '--check'] },
  { name: 'language', command: ['node', 'tools/language/main.ts'] },
  { name: 'contract', command: ['node', 'tools/contract/main.ts'] },
]

const { values: options } = parseArgs({ options: { report: { type: 'string' } } })

const results = await runAll(CHECKS)
const failed = results.filter(({ ok }) => !ok)
for (const { name, output } of failed) console.log(`\n--- ${name} failed:\n${output.trim()}`)
if (options.report !== undefined) {
  writeFileSync(
    options.report,
    JSON.stringify({ passed: results.length - failed.length, failed: failed.length }),
  )
}
process.exitCode = failed.length === 0 ? 0 : 1

/** Runs as many checks at a time as there are cores. */
async function runAll(checks) {
  const waiting = [...checks]
  const done = []
  const worker = async () => {
    for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
      const result = await runOne(check)
      console.log(`${result.ok ? 'ok    ' : 'FAILED'} ${result.name} (${result.seconds} s)`)
      done.push(result)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, worker))
  return done
}

async function runOne({ name, command: [program, ...args] }) {
  const begin = performance.now()
  const child = spawn(join(BINS, program), args, {
    cwd: ROOT,
    env: { ...process.env, PATH: `${BINS}${delimiter}${process.env.PATH ?? ''}`, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: AbortSignal.timeout(CHECK_LIMIT_MS),
  })
  const ended = once(child, 'close').catch((error) => [error.message])
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  const reason = code === 0 ? '' : `(exit code or reason: ${code})`
  const seconds = ((performance.now() - begin) / 1000).toFixed(1)
  return { name, ok: code === 0, seconds, output: `${stdout}${stderr}\n${reason}` }
}
