import { fileURLToPath } from 'node:url'
import { LockTimeout } from '../process-lock.mjs'
import { ensureDependencies, ensureToolPackages } from './dependencies.mjs'
import { SetupError } from './setup-error.mjs'
import { ensureTestTools } from './test-tools.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Exit code of `npm start -- --help`: there is nothing to start. */
const HELP_CODE = 3

/**
 * Prepares the clone so that `node_modules/.bin/node` runs Davit. Prints nothing if there was nothing to do; an obstacle results
 * in one message and exit code 1.
 *
 * @param {string[]} args `--for-tests`: also installs the programs that tests call; `--for-generate`: also the tools that write
 * generated files; `--for-docs`: also the packages of the documentation site; `--for-playground` and the options of `npm start`:
 * asks before it installs anything
 */
export async function runSetup(args) {
  try {
    if (args[0] === '--for-playground' && !(await mayStart(args.slice(1)))) return
    await ensureDependencies(ROOT)
    if (args.includes('--for-tests')) ensureTestTools()
    if (args.includes('--for-docs')) await ensureToolPackages(ROOT, 'site')
    if (args.includes('--for-generate')) await ensureToolPackages(ROOT, 'tools/openapi-types')
  } catch (error) {
    if (!(error instanceof SetupError || error instanceof LockTimeout)) throw error
    console.error(`davit: ${error.message}`)
    process.exitCode = 1
  }
}

/** Otherwise sets the exit code. */
async function mayStart(options) {
  // Imported here because no other command needs it.
  const { agreeToStart } = await import('./playground.mjs')
  const next = await agreeToStart(ROOT, options)
  if (next === 'help') process.exitCode = HELP_CODE
  if (next === 'no' || next === 'usage') process.exitCode = 1
  return next === 'start'
}
