import { createInterface } from 'node:readline'
import { mayInstallPackages, missingBakePrograms } from '../../playground/bakes/programs.mjs'
import { binaryCache, cachedBinaries } from '../../playground/control-plane/find-binaries.mjs'
import { parseOptions, USAGE, UsageError } from '../../playground/options.mjs'
import { findProgram } from '../find-program.mjs'
import { areDependenciesInstalled } from './dependencies.mjs'
import { afterNo, answerOf, describe, isComplete, reasonNotToAsk } from './first-start.mjs'

/**
 * Answers `--help` and wrong options, which need no set-up, and asks before anything is installed.
 *
 * @param {string} root the clone
 * @param {readonly string[]} args of `npm start`
 * @returns {Promise<'start' | 'help' | 'usage' | 'no'>} why the playground does not start, or that it does
 */
export async function agreeToStart(root, args) {
  const options = optionsIn(args)
  if (options === undefined) return 'usage'
  const { bakes, yes, help } = options
  if (help) {
    console.log(USAGE)
    return 'help'
  }
  const missing = await findMissing(root, bakes)
  if (isComplete(missing)) return 'start'
  tell(describe(missing))
  const isTerminal = process.stdin.isTTY === true && process.stderr.isTTY === true
  const reason = reasonNotToAsk({ yes, ci: process.env.CI, isTerminal })
  if (reason !== undefined) {
    tell([`Continuing without a question: ${reason}.`])
    return 'start'
  }
  if (await isAgreed()) return 'start'
  tell(afterNo(missing))
  return 'no'
}

function optionsIn(args) {
  try {
    return parseOptions(args, '.davit')
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    console.error(error.message)
    return undefined
  }
}

/** @returns {Promise<import('./first-start.mjs').Missing>} */
async function findMissing(root, bakes) {
  const { KUBEBUILDER_ASSETS } = process.env
  const cache = binaryCache(process.env)
  const hasBinaries = Boolean(KUBEBUILDER_ASSETS) || (await cachedBinaries(cache, process.env)) !== undefined
  const programs = bakes && mayInstallPackages() ? missingBakePrograms() : []
  return {
    packages: !areDependenciesInstalled(root),
    controlPlane: hasBinaries ? undefined : { cache: cache.root, hasGo: findProgram(['go']) !== undefined },
    debianPackages: programs.map(({ debianPackage }) => debianPackage),
  }
}

async function isAgreed() {
  // Not as a terminal: line by line, the terminal itself handles Ctrl-C and editing.
  const lines = createInterface({ input: process.stdin, terminal: false })
  const answers = lines[Symbol.asyncIterator]()
  try {
    for (;;) {
      process.stderr.write('Continue? [Y/n] ')
      const { value } = await answers.next()
      const answer = answerOf(value)
      if (value === undefined) tell([''])
      if (answer !== undefined) return answer
    }
  } finally {
    lines.close()
  }
}

function tell(lines) {
  for (const line of lines) console.error(line)
}
