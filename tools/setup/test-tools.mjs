import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { SetupError } from './setup-error.mjs'

/** What tests call besides Node: the program, the Debian package that brings it, and what it is for. */
const TOOLS = [{ program: 'openssl', debianPackage: 'openssl', use: 'certificates of test receivers' }]

const APT_LIMIT_MS = 5 * 60_000

/** Installs what is missing where that can be done (root on Debian and its like), else names it. */
export function ensureTestTools() {
  const missing = TOOLS.filter(({ program }) => !isOnPath(program))
  if (missing.length === 0) return
  if (process.getuid?.() === 0 && isOnPath('apt-get')) installWithApt(missing)
  const still = missing.filter(({ program }) => !isOnPath(program))
  if (still.length === 0) return
  const list = still.map(({ program, use }) => `  ${program} (${use})`).join('\n')
  const packages = still.map(({ debianPackage }) => debianPackage).join(' ')
  throw new SetupError(
    `the tests call programs that are not here:\n${list}\n  On Debian: apt-get install ${packages}`,
  )
}

function installWithApt(missing) {
  const packages = missing.map(({ debianPackage }) => debianPackage)
  console.error(`davit: installing for the tests: ${packages.join(' ')}`)
  apt(['update', '-qq'])
  apt(['install', '-y', '-qq', '--no-install-recommends', ...packages])
}

/** Failing is not the end: whether the program is there is looked at afterwards. */
function apt(args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const result = spawnSync('apt-get', args, { env, encoding: 'utf8', timeout: APT_LIMIT_MS })
  if (result.status !== 0)
    console.error(`davit: apt-get ${args[0]} failed:\n${result.stderr ?? ''}`.trimEnd())
}

function isOnPath(program) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => isExecutable(join(folder, program)))
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
