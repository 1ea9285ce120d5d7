/**
 * `npm run test:mutation [-- --mutate src/webhooks/log,src/ha]`: changes the pure parts of Davit line by line, and
 * looks whether the tests beside them notice. What did not change since the last run is not tried again.
 * `--tests 'src/ha/coordinator*.test.ts'` holds each change against these alone, and `--name NAME` keeps what was found
 * apart from the rest: for a file each change of which would be held against histories that take long.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { commitOfTree } from '../support/commit.ts'
import { countsOf, figuresOf, readReport, scoreOf, survivorsOf } from './scores.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const STRYKER = 'node_modules/@stryker-mutator/core/bin/stryker.js'
/** Also of what earlier runs have found, where neither code nor tests changed since. */
const REPORT = '.davit/mutation/incremental.json'
const RESULTS = 'test/mutation/results'
const ALL = 'mutation'
/** Histories by chance take long, and each change would be held against all of them; that one breaks is all that is asked. */
const SHORT = { SHARD_HISTORIES: '5', PROPERTIES: 'quick' }

const { values } = parseArgs({
  options: {
    mutate: { type: 'string' },
    force: { type: 'boolean' },
    tests: { type: 'string' },
    name: { type: 'string', default: ALL },
  },
})

const code = await run()
// Below the bound it ends with 1, and has tried all.
await tell(code <= 1)
process.exitCode = code

async function run(): Promise<number> {
  const { force, tests, name } = values
  const args = ['run', 'stryker.config.json', ...(force ? ['--force'] : [])]
  if (name !== ALL) args.push('--incrementalFile', reportOf(name))
  const chosen = values.mutate?.split(',').map((path) => (path.endsWith('.ts') ? path : `${path}/**/*.ts`))
  if (chosen) args.push('--mutate', [...chosen, '!src/**/*.test.ts'].join())
  const child = spawn(process.execPath, [STRYKER, ...args], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, ...SHORT, ...(tests === undefined ? {} : { MUTATION_TESTS: tests }) },
  })
  const [exitCode] = await once(child, 'close')
  return Number(exitCode ?? 2)
}

/** @param isWhole nobody has ended the run before it was over */
async function tell(isWhole: boolean): Promise<void> {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const report = readReport(await readFile(`${ROOT}/${reportOf(values.name)}`, 'utf8'))
  for (const { file, line, what, status } of survivorsOf(report)) say(`${file}:${line} ${status}: ${what}`)
  say('\nfolder, caught, missed, %')
  for (const [folder, count] of countsOf(report))
    say(`${folder === '' ? 'all' : folder}, ${count.caught}, ${count.missed}, ${scoreOf(count) ?? 'none'}`)
  if (!isWhole) return
  const kept = {
    measuredAt: new Date().toISOString(),
    commit: commitOfTree(),
    command: ['npm run test:mutation', ...optionsOf(values)].join(' '),
    ...figuresOf(report),
  }
  await writeFile(`${ROOT}/${RESULTS}/${values.name}.json`, `${JSON.stringify(kept, undefined, 2)}\n`)
}

function reportOf(name: string): string {
  return name === ALL ? REPORT : REPORT.replace('incremental', name)
}

/** Of a run that is kept apart, as they were given. */
function optionsOf({ mutate, tests, name }: typeof values): string[] {
  if (name === ALL) return []
  const given = Object.entries({ mutate, tests, name }).filter(([, value]) => value !== undefined)
  return ['--', ...given.map(([option, value]) => `--${option} ${value}`)]
}
