import { mkdir, open, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { BOX_CREDENTIALS_FILE, type BoxCredentials } from '../../apis/box-credentials.ts'
import type { Logger } from '../../lib/ports-log.ts'
import { type BoxFolder, type StoredService, StoreError } from './box-store.ts'
import { blobPath, type Descriptor, imageManifest, type Layer, layoutIndex } from './descriptors.ts'
import { withStoreErrors } from './store-trouble.ts'
import { verifyBlob } from './verify-blob.ts'

/** Of a service, by which people and tools find its image in a layout. */
const REF_NAME = 'org.opencontainers.image.ref.name'
const IMAGE_ANNOTATION = 'davit.dev/image'
const DIGEST_ANNOTATION = 'davit.dev/digest'
/** Manifests are small; a file that is larger is none. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024

export type LayoutFolderOptions = {
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
export class LayoutFolder implements BoxFolder {
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
