/**
 * `npm run test:mutation [-- --mutate src/domain,src/runtime/shards]`: changes the pure parts of Davit line by line, and
 * looks whether the tests beside them notice. What did not change since the last run is not tried again.
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
const RESULTS = 'test/mutation/results/mutation.json'
/** Histories by chance take long, and each change would be held against all of them; that one breaks is all that is asked. */
const SHORT = { SHARD_HISTORIES: '5', PROPERTIES: 'quick' }

const { values } = parseArgs({ options: { mutate: { type: 'string' }, force: { type: 'boolean' } } })

const code = await run()
// Below the bound it ends with 1, and has tried all.
await tell(code <= 1)
process.exitCode = code

async function run(): Promise<number> {
  const args = ['run', 'stryker.config.json', ...(values.force ? ['--force'] : [])]
  const chosen = values.mutate?.split(',').map((path) => (path.endsWith('.ts') ? path : `${path}/**/*.ts`))
  if (chosen) args.push('--mutate', [...chosen, '!src/**/*.test.ts'].join())
  const child = spawn(process.execPath, [STRYKER, ...args], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, ...SHORT },
  })
  const [exitCode] = await once(child, 'close')
  return Number(exitCode ?? 2)
}

/** @param isWhole nobody has ended the run before it was over */
async function tell(isWhole: boolean): Promise<void> {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const report = readReport(await readFile(`${ROOT}/${REPORT}`, 'utf8'))
  for (const { file, line, what, status } of survivorsOf(report)) say(`${file}:${line} ${status}: ${what}`)
  say('\nfolder, caught, missed, %')
  for (const [folder, count] of countsOf(report))
    say(`${folder === '' ? 'all' : folder}, ${count.caught}, ${count.missed}, ${scoreOf(count) ?? 'none'}`)
  if (!isWhole) return
  const kept = {
    measuredAt: new Date().toISOString(),
    commit: commitOfTree(),
    command: 'npm run test:mutation',
    ...figuresOf(report),
  }
  await writeFile(`${ROOT}/${RESULTS}`, `${JSON.stringify(kept, undefined, 2)}\n`)
}
