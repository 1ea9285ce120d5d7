import { fileURLToPath } from 'node:url'
import { LockTimeout } from '../process-lock.mjs'
import { ensureDependencies, ensureToolPackages } from './dependencies.mjs'
import { SetupError } from './setup-error.mjs'
import { ensureTestTools } from './test-tools.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Prepares the clone so that `node_modules/.bin/node` runs Davit. Prints nothing if there was nothing to do; an obstacle results
 * in one message and exit code 1.
 *
 * @param {string[]} args `--for-tests`: also installs the programs that tests call; `--for-generate`: also the tools that write
 * generated files
 */
export async function runSetup(args) {
  try {
    await ensureDependencies(ROOT)
    if (args.includes('--for-tests')) ensureTestTools()
    if (args.includes('--for-generate')) await ensureToolPackages(ROOT, 'tools/openapi-types')
  } catch (error) {
    if (!(error instanceof SetupError || error instanceof LockTimeout)) throw error
    console.error(`davit: ${error.message}`)
    process.exitCode = 1
  }
}
