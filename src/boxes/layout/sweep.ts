/**
 * What bakes that were killed have left where their template is gone, or never bakes again: nobody else would remove it.
 *
 * Nothing on a volume tells whether a bake runs: its pod may be on another node, and no lock is kept by every file system. So it is the
 * age that tells. A bake ends itself after hours, whatever the operator has set, and each has a folder of its own, made when it begins:
 * what has not changed for a week is of no bake that runs. A process that was frozen for so long and then goes on finds its folder
 * gone, and fails. What looks like a whole box stays, and so does whatever a link names: people may be reading it.
 */
import type { Dirent } from 'node:fs'
import { lstat, readdir, readlink, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { MAX_DEADLINE_SECONDS } from '../../apis/bake.ts'
import type { Logger } from '../../lib/log.ts'

/** Where the folders of bakes are, below the output. */
export const BAKES_FOLDER = '.davit'
/** A week: many times what a bake may take, so that clocks of nodes and servers of files may differ by days. */
const OLD_MS = 14 * MAX_DEADLINE_SECONDS * 1000
/** Templates whose left-overs are looked for at the beginning of one bake. */
const MOST = 1000

export type AbandonedBakesOptions = {
  output: string
  /** The template that bakes, whose own folders are left alone. */
  template: string
  /** The folder of its bake, which was made just now. */
  bake: string
  /** By the clock of this machine. */
  now: number
  signal?: AbortSignal | undefined
  log: Pick<Logger, 'warn'>
}

/** Never throws: a bake does not fail for what another one has left. */
export async function removeAbandonedBakes(sweep: AbandonedBakesOptions): Promise<void> {
  const { output, template, bake, log, signal } = sweep
  try {
    // The clock of the volume may be another machine's: what is old is so by both.
    const now = Math.min(sweep.now, (await lstat(bake)).mtimeMs)
    const links = await linksIn(output)
    const others = (await foldersIn(join(output, BAKES_FOLDER))).filter((name) => name !== template)
    for (const other of others.slice(0, MOST))
      for (const name of await readdir(join(output, BAKES_FOLDER, other))) {
        if (signal?.aborted) return
        const path = join(output, BAKES_FOLDER, other, name)
        if (links.some((target) => `/${target}/`.includes(`/${other}/${name}/`))) continue
        if (!(await isAbandoned(path, now))) continue
        log.warn('Removing what a bake has left that was killed long ago', { path })
        await rm(path, { recursive: true, force: true })
      }
  } catch (error) {
    log.warn('What other bakes may have left could not be looked at', { error })
  }
}

/** Where all links of a folder lead. */
async function linksIn(folder: string): Promise<string[]> {
  const links = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isSymbolicLink())
  return await Promise.all(links.map(({ name }) => readlink(join(folder, name))))
}

async function foldersIn(folder: string): Promise<string[]> {
  const isFolder = (entry: Dirent) => entry.isDirectory()
  return (await readdir(folder, { withFileTypes: true })).filter(isFolder).map(({ name }) => name)
}

/** Old, in itself and in all that is at its top, and no whole box. */
async function isAbandoned(path: string, now: number): Promise<boolean> {
  const itself = await lstat(path)
  const names = itself.isDirectory() ? await readdir(path) : []
  if (names.includes('index.json')) return false
  const parts = await Promise.all(names.map((name) => lstat(join(path, name))))
  return [itself, ...parts].every(({ mtimeMs }) => now - mtimeMs > OLD_MS)
}
