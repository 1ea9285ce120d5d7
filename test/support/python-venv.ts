/** Python packages for tests, in a separate virtual environment that is created once and kept. */
import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from '../../tools/find-program.mjs'
import { withProcessLock } from '../../tools/process-lock.mjs'

const OLDEST_PYTHON = [3, 10] as const
const MAKE_LIMIT_MS = 10 * 60_000

/** A problem that the user must fix; the message says how. */
export class NoPythonError extends Error {
  override readonly name = 'NoPythonError'
}

export type VenvOptions = {
  /** Purpose; names its folder. */
  name: string
  /** Requirements file for `pip install -r`. */
  requirements: string
  say: (line: string) => void
}

/** @returns the folder of its programs @throws NoPythonError */
export async function ensurePythonVenv({ name, requirements, say }: VenvOptions): Promise<string> {
  const python = findPython()
  const packages = await readFile(requirements, 'utf8')
  const id = createHash('sha256').update(`${python.version}\n${packages}`).digest('hex').slice(0, 16)
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  const folder = join(caches, 'davit', 'python', `${name}-${id}`)
  const whole = join(folder, '.whole')
  if (!existsSync(whole)) {
    await mkdir(join(caches, 'davit', 'python'), { recursive: true })
    await withProcessLock(
      `${folder}.lock`,
      async () => {
        if (existsSync(whole)) return
        say(`Installing the packages of ${requirements} in ${folder}`)
        await rm(folder, { recursive: true, force: true })
        await run(python.path, ['-m', 'venv', folder])
        const pip = ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-input', '--quiet']
        await run(join(folder, 'bin', 'python'), [...pip, '-r', requirements])
        await writeFile(whole, '')
      },
      { timeoutMs: MAKE_LIMIT_MS },
    )
  }
  return join(folder, 'bin')
}

function findPython(): { path: string; version: string } {
  const [major, minor] = OLDEST_PYTHON
  const advice = `Python ${major}.${minor} or newer with its module venv is needed. On Debian: apt-get install python3-venv`
  const path = findProgram(['python3', 'python'])
  if (path === undefined) throw new NoPythonError(`There is no python3 on the PATH. ${advice}`)
  const script = 'import sys, venv, ensurepip; print(*sys.version_info[:3], sep=".")'
  const { stdout, stderr, status } = spawnSync(path, ['-c', script], { encoding: 'utf8', timeout: 30_000 })
  const version = stdout?.trim() ?? ''
  const [isMajor = 0, isMinor = 0] = version.split('.').map(Number)
  if (status !== 0 || isMajor < major || (isMajor === major && isMinor < minor))
    throw new NoPythonError(`${path} does not do (${version || stderr.trim().split('\n').at(-1)}). ${advice}`)
  return { path, version }
}

async function run(program: string, args: string[]): Promise<void> {
  try {
    await promisify(execFile)(program, args, { timeout: MAKE_LIMIT_MS, maxBuffer: 16 * 1024 * 1024 })
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string }
    throw new NoPythonError(`${program} ${args.join(' ')} failed: ${`${stdout}${stderr}`.trim() || message}`)
  }
}
