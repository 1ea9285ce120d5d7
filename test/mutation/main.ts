/**
 * `npm run test:mutation [-- --mutate src/webhooks/log,src/ha]`: changes the pure parts of Davit line by line, and checks whether
 * the tests next to them notice. What did not change since the last run is not tried again.
 * `--tests 'src/ha/coordinator*.test.ts'` runs only these tests for each change, and `--name NAME` keeps the results separately:
 * for a file whose changes need slow histories.
 * `--sample 1500 --seed 1` tries that many changes, drawn by the seed from all that a test runs, to compare two commits.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { commitOfTree } from '../support/commit.ts'
import { SAMPLE_SETTING } from './sample.ts'
import { countsOf, figuresOf, readReport, scoreOf, survivorsOf, withinSample } from './scores.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const STRYKER = 'node_modules/@stryker-mutator/core/bin/stryker.js'
/** Also of what earlier runs have found, where neither code nor tests changed since. */
const REPORT = '.davit/mutation/incremental.json'
const PLUGINS = '@stryker-mutator/vitest-runner,./test/mutation/sample.ts'
const RESULTS = 'test/mutation/results'
const ALL = 'mutation'
const SAMPLE = 'sample'
/** Histories by chance take long, and each change would be held against all of them; that one breaks is all that is asked. */
const SHORT = { SHARD_HISTORIES: '5', PROPERTIES: 'quick' }

const { values } = parseArgs({
  options: {
    mutate: { type: 'string' },
    force: { type: 'boolean' },
    tests: { type: 'string' },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    name: { type: 'string' },
  },
})
const { sample, seed } = values
const name = values.name ?? (sample === undefined ? ALL : SAMPLE)
if (sample !== undefined && !/^[1-9]\d{0,5}$/.test(sample)) {
  process.stderr.write(`--sample takes a number of changes, such as 1500, and not ${sample}\n`)
  process.exit(2)
}

const code = await run()
process.exitCode = code
if (existsSync(`${ROOT}/${reportOf(name)}`)) {
  // Below the bound it ends with 1, and has tried all.
  await tell(code <= 1)
} else {
  process.stderr.write('No change was tried; the lines of Stryker above say why.\n')
}

async function run(): Promise<number> {
  const { force, tests } = values
  // What is left out of a sample would be taken for known in the next run.
  const isForced = force || sample !== undefined
  const args = ['run', 'stryker.config.json', ...(isForced ? ['--force'] : [])]
  if (sample !== undefined) args.push('--checkers', 'sample', '--plugins', PLUGINS)
  if (name !== ALL) args.push('--incrementalFile', reportOf(name))
  const chosen = values.mutate?.split(',').map((path) => (path.endsWith('.ts') ? path : `${path}/**/*.ts`))
  if (chosen) args.push('--mutate', [...chosen, '!src/**/*.test.ts'].join())
  const child = spawn(process.execPath, [STRYKER, ...args], {
    cwd: ROOT,
    stdio: 'inherit',
    env: {
      ...process.env,
      ...SHORT,
      ...(tests === undefined ? {} : { MUTATION_TESTS: tests }),
      ...(sample === undefined ? {} : { [SAMPLE_SETTING]: `${sample}:${seed}` }),
    },
  })
  const [exitCode] = await once(child, 'close')
  return Number(exitCode ?? 2)
}

/** @param isWhole whether the run was complete */
async function tell(isWhole: boolean): Promise<void> {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const all = readReport(await readFile(`${ROOT}/${reportOf(name)}`, 'utf8'))
  const report = sample === undefined ? all : withinSample(all, seed)
  for (const { file, line, what, status } of survivorsOf(report)) say(`${file}:${line} ${status}: ${what}`)
  say('\nfolder, caught, missed, %')
  for (const [folder, count] of countsOf(report))
    say(`${folder === '' ? 'all' : folder}, ${count.caught}, ${count.missed}, ${scoreOf(count) ?? 'none'}`)
  if (!isWhole) return
  const kept = {
    measuredAt: new Date().toISOString(),
    commit: commitOfTree(),
    command: ['npm run test:mutation', ...optionsOf()].join(' '),
    ...figuresOf(report),
  }
  await writeFile(`${ROOT}/${RESULTS}/${name}.json`, `${JSON.stringify(kept, undefined, 2)}\n`)
}

function reportOf(name: string): string {
  return name === ALL ? REPORT : REPORT.replace('incremental', name)
}

/** Of a run that is kept apart, as they were given. */
function optionsOf(): string[] {
  if (name === ALL) return []
  const { mutate, tests } = values
  const drawn = sample === undefined ? { name } : { sample, seed }
  const given = Object.entries({ mutate, tests, ...drawn }).filter(([, value]) => value !== undefined)
  return ['--', ...given.map(([option, value]) => `--${option} ${value}`)]
}
