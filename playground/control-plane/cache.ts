import { access, constants, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** Reports the progress of long work in one line that is redrawn. */
export type Progress = {
  /** May be called at any rate. */
  show(text: string): void
  /** The work is done. */
  end(): void
}

export type ProgressStream = {
  isTTY?: boolean | undefined
  columns?: number | undefined
  write(text: string): unknown
}

/** In a log, every change would be too much, but minutes of silence look like a hang. */
const LOG_EVERY_MS = 10_000
const ERASE_LINE = '\r\u001b[2K'

/**
 * On a terminal, redraws one line; elsewhere writes a line immediately, and then one every ten seconds.
 *
 * @param monotonic milliseconds that never go back
 */
export function progressTo(
  stream: ProgressStream,
  monotonic: () => number = () => performance.now(),
): Progress {
  return stream.isTTY === true ? lineOn(stream) : linesOn(stream, monotonic)
}

function lineOn(stream: ProgressStream): Progress {
  return {
    // A line that wraps could not be erased.
    show: (text) => stream.write(`${ERASE_LINE}${text.slice(0, (stream.columns ?? 80) - 1)}`),
    end: () => stream.write(ERASE_LINE),
  }
}

function linesOn(stream: ProgressStream, monotonic: () => number): Progress {
  let last: { text: string; at: number } | undefined
  return {
    show: (text) => {
      if (last !== undefined && (text === last.text || monotonic() - last.at < LOG_EVERY_MS)) return
      last = { text, at: monotonic() }
      stream.write(`${text}\n`)
    },
    end: () => {},
  }
}

/** The version that the Go module of tools/control-plane builds. */
export const KUBERNETES_VERSION = 'v1.36.3'

/** Other patches of this minor are accepted if they are available. */
export const KUBERNETES_MINOR = '1.36'

export const PROGRAMS = ['etcd', 'kube-apiserver', 'kubectl'] as const

export type ProgramName = (typeof PROGRAMS)[number]

const STAGING_PREFIX = '.making-'
const GO_ARCH: Readonly<Record<string, string>> = { x64: 'amd64' }

/**
 * Programs by version and platform, `<root>/<version>-<os>-<arch>/<program>`. Every folder is complete from the moment it
 * appears.
 */
export type BinaryCache = { root: string; platform: string }

export function binaryCache(env: NodeJS.ProcessEnv): BinaryCache {
  const caches = env.XDG_CACHE_HOME || join(homedir(), '.cache')
  return {
    root: join(caches, 'davit', 'control-plane'),
    platform: `${process.platform}-${GO_ARCH[process.arch] ?? process.arch}`,
  }
}

/** The folder with all of these programs: of the version that is built here, otherwise of the newest other patch. */
export async function findCached(
  cache: BinaryCache,
  programs: readonly ProgramName[],
): Promise<string | undefined> {
  const suffix = `-${cache.platform}`
  const folders = (await namesIn(cache.root))
    .filter((name) => name.startsWith(`v${KUBERNETES_MINOR}.`) && name.endsWith(suffix))
    .sort((a, b) => rank(b, suffix) - rank(a, suffix))
    .map((name) => join(cache.root, name))
  for (const folder of folders) {
    if (await hasPrograms(folder, programs)) return folder
  }
  return undefined
}

export async function hasPrograms(folder: string, programs: readonly ProgramName[]): Promise<boolean> {
  const isThere = (program: string) =>
    access(join(folder, program), constants.X_OK).then(
      () => true,
      () => false,
    )
  return (await Promise.all(programs.map(isThere))).every(Boolean)
}

/** A new empty folder on the cache's disk; removes the leftovers of interrupted runs. Call it only under the cache's lock. */
export async function openStaging(cache: BinaryCache): Promise<string> {
  const left = (await namesIn(cache.root)).filter((name) => name.startsWith(STAGING_PREFIX))
  await Promise.all(left.map((name) => rm(join(cache.root, name), { recursive: true, force: true })))
  await mkdir(cache.root, { recursive: true })
  return mkdtemp(join(cache.root, STAGING_PREFIX))
}

/**
 * Moves the content of a staging folder to the folder of its version, by rename: a folder in the cache is always complete, and an
 * existing one gets what it lacks.
 *
 * @returns the folder in the cache
 */
export async function adopt(cache: BinaryCache, staging: string, version: string): Promise<string> {
  const folder = join(cache.root, `${version}-${cache.platform}`)
  try {
    await rename(staging, folder)
  } catch (error) {
    if (!isTaken(error)) throw error
    const programs = await readdir(staging)
    await Promise.all(programs.map((program) => rename(join(staging, program), join(folder, program))))
    await rm(staging, { recursive: true, force: true })
  }
  return folder
}

function rank(name: string, suffix: string): number {
  const version = name.slice(0, -suffix.length)
  return version === KUBERNETES_VERSION ? Number.POSITIVE_INFINITY : Number(version.split('.')[2])
}

function isTaken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code
  return code === 'ENOTEMPTY' || code === 'EEXIST'
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
