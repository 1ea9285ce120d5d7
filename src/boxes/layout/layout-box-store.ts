/** Boxes on a volume: `<output>/<template>` is a link to the folder of the last good bake under `<output>/.davit`. */
import { mkdir, readdir, readlink, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Clock } from '../../lib/ports-clock.ts'
import { type BoxStore, StoreError } from './box-store.ts'
import { LayoutFolder, type LayoutFolderOptions } from './store.ts'
import { withStoreErrors } from './store-trouble.ts'
import { BAKES_FOLDER, removeAbandonedBakes } from './sweep.ts'

export type BoxStoreOptions = {
  output: string
  template: string
  /** Name of this bake. */
  bake: string
  clock: Pick<Clock, 'now'>
} & FolderParts

type FolderParts = Pick<LayoutFolderOptions, 'log' | 'signal' | 'sync'>

export function createBoxStore({ output, template, bake, clock, ...parts }: BoxStoreOptions): BoxStore {
  const bakes = join(output, BAKES_FOLDER, template)
  const link = join(output, template)
  return {
    open: () =>
      withStoreErrors(async () => {
        await mkdir(bakes, { recursive: true })
        const live = await liveBake(link)
        for (const name of await readdir(bakes))
          if (name !== live) await rm(join(bakes, name), { recursive: true, force: true })
        // A bake that is told to run again after it was published must not touch what is in use.
        const path = join(bakes, live === bake ? `${bake}.again` : bake)
        const folder = await openFolder({ ...parts, path, link })
        await removeAbandonedBakes({ ...parts, output, template, bake: path, now: clock.now() })
        return folder
      }),
  }
}

/** A place for images that are only pulled and verified. @param folder made and removed with it */
export function createScratchStore(folder: string, parts: FolderParts): BoxStore {
  return {
    open: () =>
      withStoreErrors(async () => {
        await rm(folder, { recursive: true, force: true })
        return await openFolder({ ...parts, path: folder, link: undefined })
      }),
  }
}

async function openFolder(options: LayoutFolderOptions): Promise<LayoutFolder> {
  const folder = new LayoutFolder(options)
  await mkdir(folder.blobs, { recursive: true })
  await mkdir(folder.temporary)
  return folder
}

/** Which bake the box is of now. @throws where something else is in the place of the link */
async function liveBake(link: string): Promise<string | undefined> {
  try {
    return basename(await readlink(link))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT') return undefined
    if (code !== 'EINVAL') throw error
    throw new StoreError(
      'failed',
      `${link} is no link that a bake has put there, and stays: give the template another name, or the box another volume`,
    )
  }
}
