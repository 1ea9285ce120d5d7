/** The programs that bakes need in addition to Node: installed if possible, otherwise listed for the user. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type BakeProgram, mayInstallPackages, missingBakePrograms } from './programs.mjs'

/** For the package list and the packages; either can be given up without harm. */
const FETCH_LIMIT_MS = 90_000
/** Unpacking is never interrupted: that would leave the machine with half a package. */
const APT = ['-qq', '-y', '-o', 'Acquire::Retries=0', '-o', 'Acquire::http::Timeout=15', '-o']
const LOCK = 'DPkg::Lock::Timeout=10'

export type ToolsOptions = {
  /** Whether bakes are wanted; if not, nothing is looked for or installed. */
  bakes: boolean
  note: (line: string) => void
  /** Aborted when the playground is to end. */
  stopping: AbortSignal
  /** Whether packages may be installed. Absent: whether this process is root. */
  isRoot?: boolean
}

/** @returns whether all tools are there; if not, the missing ones and the way to get them have been noted */
export async function ensureBakeTools(options: ToolsOptions): Promise<boolean> {
  const { bakes, note, stopping, isRoot } = options
  if (!bakes) return false
  const missing = missingBakePrograms()
  if (missing.length === 0) return true
  let why = ''
  if (mayInstallPackages(isRoot)) {
    note(`Installing packages for bakes in the background, as root: ${packagesOf(missing)} ...`)
    why = await install(missing, stopping)
  }
  const still = missingBakePrograms()
  if (still.length === 0) return true
  if (stopping.aborted) return false
  const programs = still.map(({ program }) => program).join(', ')
  note(`Skipping the bakes. Missing programs: ${programs}`)
  if (why !== '') note(`apt-get: ${why}`)
  note(`To install them on Debian, run: apt-get install ${packagesOf(still)}`)
  return false
}

function packagesOf(tools: readonly BakeProgram[]): string {
  return tools.map(({ debianPackage }) => debianPackage).join(' ')
}

/** @returns the last line of output after a failure */
async function install(tools: readonly BakeProgram[], stopping: AbortSignal): Promise<string> {
  const packages = ['--no-install-recommends', 'install', ...tools.map(({ debianPackage }) => debianPackage)]
  const giveUp = AbortSignal.any([stopping, AbortSignal.timeout(FETCH_LIMIT_MS)])
  // A stale package list may still do.
  await apt(['update'], giveUp)
  const fetched = await apt(['--download-only', ...packages], giveUp)
  if (fetched !== undefined) return fetched
  return (await apt(packages)) ?? ''
}

/** @returns undefined after success, otherwise the last line of output */
async function apt(args: readonly string[], giveUp?: AbortSignal): Promise<string | undefined> {
  if (giveUp?.aborted) return TOO_SLOW
  const child = spawn('apt-get', [...APT, LOCK, ...args], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  })
  let output = ''
  child.on('error', (error) => {
    output = error.message
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-4096)
  })
  const end = () => {
    if (isRunning(child) && child.pid !== undefined) process.kill(-child.pid, 'SIGTERM')
  }
  giveUp?.addEventListener('abort', end, { once: true })
  const [code] = (await once(child, 'close').catch(() => [null])) as [number | null]
  giveUp?.removeEventListener('abort', end)
  if (code === 0) return undefined
  if (giveUp?.aborted) return TOO_SLOW
  return output.trim().split('\n').at(-1) || `exit code ${code}`
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}

const TOO_SLOW = `did not finish within ${FETCH_LIMIT_MS / 1000} s`
