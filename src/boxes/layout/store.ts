import { createHash } from 'node:crypto'
import {
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { z } from 'zod'
import { BOX_CREDENTIALS_FILE, type BoxCredentials } from '../../apis/box-credentials.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { BAKES_FOLDER, removeAbandonedBakes } from './sweep.ts'

/** Where baked boxes are: one folder with an OCI layout per template, which is there as a whole or not at all. */

/** A service whose image is in the folder. */
type StoredService = {
  name: string
  /** As the template has it. */
  image: string
  /** What the registry said that the image is. */
  digest: string
}

/** A place for one bake, which counts for nothing until it is published. */
export interface BoxFolder {
  /** For the copier; empty, also where there was an attempt before. */
  folderOf(service: string): Promise<string>
  readonly blobs: string
  readonly temporary: string
  /** Bytes of blobs that are there now, also of those that are still coming. */
  size(): Promise<number>
  /** Looks at every blob of a service again: that it is there, and is what its digest says. Throws StoreError. */
  verify(service: string): Promise<void>
  /** Makes one layout of all, and puts it in place by one rename. Throws StoreError, and then the box is not in place. */
  publish(services: readonly StoredService[], credentials: BoxCredentials): Promise<void>
  /** Removes it, unless it was published. */
  discard(): Promise<void>
}

export interface BoxStore {
  /** Removes what earlier bakes have left, and makes a place for this one. Throws StoreError. */
  open(): Promise<BoxFolder>
}

/** `room`: there is no space. `damaged`: a blob is not what its digest says. `failed`: anything else. */
export type StoreErrorKind = 'room' | 'damaged' | 'failed'

export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly trouble: StoreErrorKind

  constructor(trouble: StoreErrorKind, message: string) {
    super(message)
    this.trouble = trouble
  }
}

/** No space on the disk, over a quota, or over the size that a file may have. */
const OUT_OF_SPACE: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** What `work` gives. @throws StoreError whatever goes wrong in it */
async function withStoreErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StoreError) throw error
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const message = error instanceof Error ? error.message : String(error)
    throw new StoreError(OUT_OF_SPACE.has(code) ? 'room' : 'failed', message)
  }
}

/** Source: OCI image specification, "Content Descriptors", "Image Manifest", "Image Layout". */

/** Of the algorithms that the specification registers; the name of a file cannot be anything else. */
const digest = z.string().regex(/^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/)

export const descriptor = z.looseObject({
  mediaType: z.string(),
  digest,
  size: z.int().min(0),
  annotations: z.record(z.string(), z.string()).optional(),
})
type Descriptor = z.infer<typeof descriptor>

const layoutIndex = z.looseObject({ schemaVersion: z.literal(2), manifests: z.array(descriptor) })

/** `urls` are where else a layer is; of one that is not to be distributed they are the only places. */
const layer = descriptor.extend({ urls: z.array(z.string()).optional() })
type Layer = z.infer<typeof layer>

const imageManifest = z.looseObject({
  schemaVersion: z.literal(2),
  config: descriptor,
  layers: z.array(layer),
})

/** Where a layout has a blob: algorithm, digest. */
function blobPath({ digest: text }: { digest: string }): [string, string] {
  const [algorithm = '', hex = ''] = text.split(':')
  return [algorithm, hex]
}

const PIECE_BYTES = 1024 * 1024

/**
 * Reads a blob from the disk and holds it against its descriptor; afterwards it is on the disk for good.
 * @throws StoreError `damaged` where it is something else
 */
async function verifyBlob(blobs: string, blob: Descriptor, signal: AbortSignal | undefined): Promise<void> {
  const [algorithm, hex] = blobPath(blob)
  const file = await open(join(blobs, algorithm, hex), 'r')
  try {
    const hash = createHash(algorithm)
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    let size = 0
    for (;;) {
      signal?.throwIfAborted()
      const { bytesRead } = await file.read(piece, 0, PIECE_BYTES)
      if (bytesRead === 0) break
      size += bytesRead
      hash.update(piece.subarray(0, bytesRead))
    }
    const found = hash.digest('hex')
    if (found !== hex) throw damaged(blob, `its content is ${algorithm}:${found}`)
    if (size !== blob.size) throw damaged(blob, `it has ${size} bytes instead of ${blob.size}`)
    await file.sync()
  } finally {
    await file.close()
  }
}

function damaged({ digest }: Descriptor, how: string): StoreError {
  return new StoreError('damaged', `the blob ${digest} was not stored as it is: ${how}`)
}

/** Of a service, by which people and tools find its image in a layout. */
const REF_NAME = 'org.opencontainers.image.ref.name'
const IMAGE_ANNOTATION = 'davit.dev/image'
const DIGEST_ANNOTATION = 'davit.dev/digest'
/** Manifests are small; a file that is larger is none. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024

type LayoutFolderOptions = {
  /** The folder of this bake, which is there and empty. */
  path: string
  /** The name by which the box is known; absent: it is never published. */
  link: string | undefined
  signal?: AbortSignal | undefined
  log: Pick<Logger, 'warn'>
  /** Sees to it that what was renamed or made in a folder is on the disk. */
  sync?: ((folder: string) => Promise<void>) | undefined
}

/** What a service needs. */
type Verified = { manifest: Descriptor; blobs: ReadonlySet<string> }

/** The folder of one bake while it is filled. */
class LayoutFolder implements BoxFolder {
  readonly blobs: string
  readonly temporary: string
  readonly #options: LayoutFolderOptions
  readonly #sync: (folder: string) => Promise<void>
  /** By service, once it was looked at. */
  readonly #verified = new Map<string, Verified>()
  readonly #sound = new Set<string>()
  #published = false

  constructor(options: LayoutFolderOptions) {
    this.#options = options
    this.#sync = options.sync ?? syncFolder
    this.blobs = join(options.path, 'blobs')
    this.temporary = join(options.path, '.temporary')
  }

  async folderOf(service: string): Promise<string> {
    const path = this.#serviceFolder(service)
    await withStoreErrors(async () => {
      // Of an attempt before: the tool would add its image to that.
      await rm(path, { recursive: true, force: true })
      await mkdir(path, { recursive: true })
    })
    return path
  }

  async size(): Promise<number> {
    const entries = await readdir(this.#options.path, { recursive: true, withFileTypes: true }).catch(
      () => [],
    )
    const sizes = entries
      .filter((entry) => entry.isFile())
      // A blob that is still coming is renamed at its end.
      .map((entry) =>
        stat(join(entry.parentPath, entry.name)).then(
          ({ size }) => size,
          () => 0,
        ),
      )
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
  }

  async verify(service: string): Promise<void> {
    await withStoreErrors(async () => {
      const path = join(this.#serviceFolder(service), 'index.json')
      const { manifests } = layoutIndex.parse(await readJson(path))
      const [manifest, ...more] = manifests
      if (!manifest || more.length > 0)
        throw new StoreError('damaged', `the layout of ${service} has ${manifests.length} images`)
      await this.#verifyOnce(manifest)
      const { config, layers } = imageManifest.parse(await readJson(join(this.blobs, ...blobPath(manifest))))
      await this.#verifyOnce(config)
      for (const layer of layers) await this.#verifyLayer(layer)
      const blobs = [manifest, config, ...layers].map(({ digest }) => digest)
      this.#verified.set(service, { manifest, blobs: new Set(blobs) })
    })
  }

  async publish(services: readonly StoredService[], credentials: BoxCredentials): Promise<void> {
    const { path, link } = this.#options
    if (link === undefined) return
    await withStoreErrors(async () => {
      const manifests = services.map((service) => this.#entryOf(service))
      const index = { schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json', manifests }
      await writeDurably(join(path, 'oci-layout'), { imageLayoutVersion: '1.0.0' })
      await writeDurably(join(path, 'index.json'), index)
      await writeDurably(join(path, BOX_CREDENTIALS_FILE), credentials)
      await this.#removeScaffold()
      const bakes = join(path, '..')
      const next = `${path}.link`
      await symlink(relative(join(link, '..'), path), next)
      const folders = [...(await foldersOf(this.blobs)), this.blobs, path, bakes, join(bakes, '..')]
      for (const folder of folders) await this.#sync(folder)
      this.#options.signal?.throwIfAborted()
      await rename(next, link)
      this.#published = true
    })
    await this.#keep(join(link, '..'))
  }

  /** The box is in place, and is there for everybody: whatever goes wrong now, the bake has succeeded. */
  async #keep(folder: string): Promise<void> {
    try {
      await this.#sync(folder)
    } catch (error) {
      this.#options.log.warn('The box is in its place, which may be lost if the machine stops now', { error })
    }
  }

  async discard(): Promise<void> {
    if (this.#published) return
    await rm(this.#options.path, { recursive: true, force: true })
    await rm(`${this.#options.path}.link`, { force: true })
  }

  #serviceFolder(service: string): string {
    return join(this.#options.path, '.services', service)
  }

  async #verifyOnce(blob: Descriptor): Promise<void> {
    if (this.#sound.has(blob.digest)) return
    await verifyBlob(this.blobs, blob, this.#options.signal)
    this.#sound.add(blob.digest)
  }

  /** A tool leaves out what is not to be distributed; a box without it would be no box. */
  async #verifyLayer(layer: Layer): Promise<void> {
    try {
      await this.#verifyOnce(layer)
    } catch (error) {
      if (layer.urls === undefined || !isAbsent(error)) throw error
      const where = layer.urls.join(', ') || 'nowhere'
      throw new StoreError(
        'failed',
        `the layer ${layer.digest} is not to be distributed (${layer.mediaType}, from ${where}), so it was not pulled: a box has all of its layers or is none`,
      )
    }
  }

  #entryOf({ name, image, digest }: StoredService): Descriptor {
    const { manifest } = this.#verified.get(name) ?? {}
    if (!manifest) throw new StoreError('failed', `the image of ${name} was not verified`)
    const annotations = { [REF_NAME]: name, [IMAGE_ANNOTATION]: image, [DIGEST_ANNOTATION]: digest }
    return { ...manifest, annotations }
  }

  /** What no image needs: the tool's own folders, and blobs of an attempt that failed. */
  async #removeScaffold(): Promise<void> {
    await rm(join(this.#options.path, '.services'), { recursive: true, force: true })
    await rm(this.temporary, { recursive: true, force: true })
    const needed = new Set([...this.#verified.values()].flatMap(({ blobs }) => [...blobs]))
    for (const folder of await foldersOf(this.blobs)) {
      const algorithm = folder.slice(this.blobs.length + 1)
      for (const name of await readdir(folder))
        if (!needed.has(`${algorithm}:${name}`)) await rm(join(folder, name))
    }
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

async function readJson(path: string): Promise<unknown> {
  const { size } = await stat(path)
  if (size > MAX_MANIFEST_BYTES) throw new StoreError('damaged', `${path} is too large`)
  return JSON.parse(await readFile(path, 'utf8'))
}

async function foldersOf(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(path, name))
}

async function writeDurably(path: string, value: unknown): Promise<void> {
  await writeFile(path, `${JSON.stringify(value)}\n`, { mode: 0o644, flush: true })
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** Boxes on a volume: `<output>/<template>` is a link to the folder of the last good bake under `<output>/.davit`. */

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
