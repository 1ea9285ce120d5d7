import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type BinaryCache, namesIn } from './find-binaries.mjs'

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

const STAGING_PREFIX = '.making-'

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

function isTaken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code
  return code === 'ENOTEMPTY' || code === 'EEXIST'
}
