import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { withProcessLock } from '../process-lock.mjs'
import { ensureNodeRuntime, hasNodeRuntime } from './node-runtime.mjs'
import { SetupError } from './setup-error.mjs'

const INSTALL_LIMIT_MS = 15 * 60_000

/**
 * Installs node_modules from the lock file, with a Node in node_modules/.bin that runs Davit. A stamp in node_modules holds the
 * hash of its lock file, so that a second run only compares.
 *
 * @param {string} root the clone
 */
export async function ensureDependencies(root) {
  const isDone = () => isStamped(root) && hasNodeRuntime(root)
  if (isDone()) return
  await oneAtATime(root, () => {
    if (isDone()) return
    if (!areDependenciesInstalled(root)) install(root, 'package-lock.json')
    const node = ensureNodeRuntime(root)
    stamp(root, { node })
  })
}

/**
 * Whether `ensureDependencies` has nothing to install.
 *
 * @param {string} root the clone
 */
export function areDependenciesInstalled(root) {
  return (isStamped(root) || isInstalledByHand(root)) && hasNodeRuntime(root)
}

/**
 * Installs the packages of a tool with its own lock file, whose dependencies conflict with Davit's.
 *
 * @param {string} root the clone
 * @param {string} folder of the tool, below it
 */
export async function ensureToolPackages(root, folder) {
  const home = join(root, folder)
  if (isStamped(home)) return
  await oneAtATime(root, () => {
    if (isStamped(home)) return
    install(home, `${folder}/package-lock.json`)
    stamp(home)
  })
}

async function oneAtATime(root, work) {
  mkdirSync(join(root, '.davit'), { recursive: true })
  await withProcessLock(join(root, '.davit', 'setup.lock'), work, {
    timeoutMs: INSTALL_LIMIT_MS,
    onWait: (pid) => console.error(`davit: waiting for another setup of this clone (process ${pid})`),
  })
}

function isStamped(folder) {
  const stamp = readJson(stampPath(folder))
  const want = wanted(folder)
  return stamp !== undefined && Object.keys(want).every((key) => stamp[key] === want[key])
}

function stamp(folder, more = {}) {
  writeFileSync(stampPath(folder), `${JSON.stringify({ ...wanted(folder), ...more })}\n`)
}

function wanted(folder) {
  const lock = createHash('sha256')
    .update(readFileSync(lockPath(folder)))
    .digest('hex')
  // A clone on a shared folder may be used from two kinds of machine, and packages contain native code.
  return { lock, platform: process.platform, arch: process.arch }
}

/** Whether a manual `npm install` has already installed the lock file, by npm's own record. */
function isInstalledByHand(root) {
  const lock = readJson(lockPath(root))?.packages
  const installed = readJson(join(root, 'node_modules', '.package-lock.json'))?.packages
  if (lock === undefined || installed === undefined) return false
  const isInLock = ([path, entry]) => JSON.stringify(lock[path]) === JSON.stringify(entry)
  const isThere = ([path, entry]) => path === '' || entry.optional === true || installed[path] !== undefined
  return Object.entries(installed).every(isInLock) && Object.entries(lock).every(isThere)
}

/** @param {string} lockName for messages */
function install(folder, lockName) {
  console.error(`davit: installing the packages of ${lockName}`)
  const result = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    env: { ...process.env, PATH: pathWithoutProjectBins() },
    encoding: 'utf8',
    timeout: INSTALL_LIMIT_MS,
  })
  if (result.error !== undefined && result.error.code === 'ENOENT') {
    throw new SetupError('npm is not on the PATH. Install Node.js, which includes npm (https://nodejs.org).')
  }
  if (result.status !== 0) {
    const output = `${result.stdout ?? ''}${result.stderr ?? ''}`.trim()
    throw new SetupError(`npm ci failed (${reasonOf(result)}):\n${output}`)
  }
}

function reasonOf(result) {
  if (result.error !== undefined) return result.error.message
  return result.signal === null ? `exit code ${result.status}` : result.signal
}

/** npm puts node_modules/.bin first, but its Node is about to be removed during the run. */
function pathWithoutProjectBins() {
  const parts = (process.env.PATH ?? '').split(delimiter)
  return parts.filter((part) => !part.replaceAll('\\', '/').endsWith('node_modules/.bin')).join(delimiter)
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

function lockPath(folder) {
  return join(folder, 'package-lock.json')
}

function stampPath(folder) {
  return join(folder, 'node_modules', '.davit-setup.json')
}
