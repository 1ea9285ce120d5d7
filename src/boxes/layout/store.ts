/**
 * Stores baked boxes on a volume, one OCI layout per template (OCI image specification: "Content Descriptors", "Image Manifest", "Image
 * Layout"). `<output>/<template>` is a link to the folder of the last good bake below `<output>/.davit`; replacing the link publishes a
 * box as a whole.
 */
import { createHash } from 'node:crypto'
import {
  lstat,
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
import { MAX_DEADLINE_SECONDS } from '../../apis/bake.ts'
import { BOX_CREDENTIALS_FILE, type BoxCredentials } from '../../apis/box-credentials.ts'
import { tryParseJson } from '../../lib/json.ts'
import type { Logger } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'

const BAKES_FOLDER = '.davit'

/** `image` as in the template, `digest` from the registry. */
type StoredService = { name: string; image: string; digest: string }

type ConfigPlatform = z.infer<typeof imageConfig>

/** The folder of one bake. It has no effect until it is published. */
export interface BoxFolder {
  folderOf(service: string): Promise<string>
  readonly blobs: string
  readonly temporary: string
  size(): Promise<number>
  /**
   * Checks that every blob of a service exists and matches its digest.
   * @returns the platform in the config of the image; undefined if it has none, as artifacts @throws StoreError
   */
  verify(service: string): Promise<ConfigPlatform | undefined>
  /** Gives a service the image of another one that is verified. @throws StoreError */
  reuse(service: string, verified: string): void
  /** Makes one layout of all services, and publishes it with one rename. @throws StoreError if the box is not published */
  publish(services: readonly StoredService[], credentials: BoxCredentials): Promise<void>
  discard(): Promise<void>
}

export interface BoxStore {
  /** Makes the folder of this bake, and removes what earlier bakes left. @throws StoreError */
  open(): Promise<BoxFolder>
}

/** `damaged`: a blob does not match its digest. */
type StoreErrorKind = 'no-space' | 'damaged' | 'failed'

export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly kind: StoreErrorKind

  constructor(kind: StoreErrorKind, message: string) {
    super(message)
    this.kind = kind
  }
}

/** The disk is full, a quota is exceeded, or a file is too large for the file system. */
const OUT_OF_SPACE: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

async function withStoreErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StoreError) throw error
    const message = error instanceof Error ? error.message : String(error)
    throw new StoreError(OUT_OF_SPACE.has(errorCode(error)) ? 'no-space' : 'failed', message)
  }
}

function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

/** Only the algorithms that the specification registers, since a digest becomes the name of a file. */
const digest = z.string().regex(/^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/)

const descriptor = z.looseObject({
  mediaType: z.string(),
  digest,
  size: z.int().min(0),
  annotations: z.record(z.string(), z.string()).optional(),
})
type Descriptor = z.infer<typeof descriptor>

const layoutIndex = z.looseObject({ schemaVersion: z.literal(2), manifests: z.array(descriptor) })

/** `urls` are other locations of a layer, and the only ones of a non-distributable layer. */
const layer = descriptor.extend({ urls: z.array(z.string()).optional() })
type Layer = z.infer<typeof layer>

const imageManifest = z.looseObject({
  schemaVersion: z.literal(2),
  config: descriptor,
  layers: z.array(layer),
})

const imageConfig = z.object({
  os: z.string().min(1),
  architecture: z.string().min(1),
  variant: z.string().optional().catch(undefined),
})

function blobPath({ digest: text }: { digest: string }): [string, string] {
  const [algorithm = '', hex = ''] = text.split(':')
  return [algorithm, hex]
}

const CHUNK_BYTES = 1024 * 1024

/** Reads a blob, compares it with its descriptor, and syncs it to disk. @throws StoreError */
async function verifyBlob(blobs: string, blob: Descriptor, signal: AbortSignal | undefined): Promise<void> {
  const [algorithm, hex] = blobPath(blob)
  const file = await open(join(blobs, algorithm, hex), 'r')
  try {
    const hash = createHash(algorithm)
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    let size = 0
    for (;;) {
      signal?.throwIfAborted()
      const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES)
      if (bytesRead === 0) break
      size += bytesRead
      hash.update(chunk.subarray(0, bytesRead))
    }
    const found = hash.digest('hex')
    if (found !== hex) throw damaged(blob, `its content has the digest ${algorithm}:${found}`)
    if (size !== blob.size) throw damaged(blob, `it has ${size} bytes instead of ${blob.size}`)
    await file.sync()
  } finally {
    await file.close()
  }
}

function damaged({ digest }: Descriptor, how: string): StoreError {
  return new StoreError('damaged', `the blob ${digest} was not stored correctly: ${how}`)
}

const REF_NAME = 'org.opencontainers.image.ref.name'
const IMAGE_ANNOTATION = 'davit.dev/image'
const DIGEST_ANNOTATION = 'davit.dev/digest'
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024

type LayoutFolderOptions = {
  path: string
  /** The link to publish; absent: never published. */
  link: string | undefined
  signal?: AbortSignal | undefined
  log: Pick<Logger, 'warn'>
  /** Syncs a folder, so that renamed and new entries are durable. */
  sync?: ((folder: string) => Promise<void>) | undefined
}

class LayoutFolder implements BoxFolder {
  readonly blobs: string
  readonly temporary: string
  readonly #options: LayoutFolderOptions
  readonly #sync: (folder: string) => Promise<void>
  readonly #verified = new Map<string, { manifest: Descriptor; blobs: readonly string[] }>()
  readonly #verifiedBlobs = new Set<string>()
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
      // The tool would add its image to that of an earlier attempt.
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
      // A finished blob is renamed, and may be gone.
      .map((entry) =>
        stat(join(entry.parentPath, entry.name)).then(
          ({ size }) => size,
          () => 0,
        ),
      )
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
  }

  async verify(service: string): Promise<ConfigPlatform | undefined> {
    return await withStoreErrors(async () => {
      const path = join(this.#serviceFolder(service), 'index.json')
      const { manifests } = layoutIndex.parse(await readJson(path))
      const [manifest, ...more] = manifests
      if (!manifest || more.length > 0)
        throw new StoreError(
          'damaged',
          `the layout of ${service} has ${manifests.length} images instead of 1`,
        )
      await this.#verifyOnce(manifest)
      const { config, layers } = imageManifest.parse(await readJson(join(this.blobs, ...blobPath(manifest))))
      await this.#verifyOnce(config)
      for (const layer of layers) await this.#verifyLayer(layer)
      const blobs = [manifest, config, ...layers].map(({ digest }) => digest)
      this.#verified.set(service, { manifest, blobs })
      return imageConfig.safeParse(await readSmallJson(join(this.blobs, ...blobPath(config)))).data
    })
  }

  reuse(service: string, verified: string): void {
    const image = this.#verified.get(verified)
    if (!image) throw new StoreError('failed', `the image of ${verified} was not verified`)
    this.#verified.set(service, image)
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
      await this.#removeTemporaryFiles()
      const bakes = join(path, '..')
      const next = `${path}.link`
      await symlink(relative(join(link, '..'), path), next)
      const folders = [...(await foldersOf(this.blobs)), this.blobs, path, bakes, join(bakes, '..')]
      for (const folder of folders) await this.#sync(folder)
      this.#options.signal?.throwIfAborted()
      await rename(next, link)
      this.#published = true
    })
    try {
      await this.#sync(join(link, '..'))
    } catch (error) {
      // The box is published, so the bake has succeeded.
      this.#options.log.warn(
        'box_sync_failed',
        'published the box but failed to sync it; it may be lost if the machine stops now',
        { error },
      )
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
    if (this.#verifiedBlobs.has(blob.digest)) return
    await verifyBlob(this.blobs, blob, this.#options.signal)
    this.#verifiedBlobs.add(blob.digest)
  }

  /** The tool skips non-distributable layers, without which an image does not run. */
  async #verifyLayer(layer: Layer): Promise<void> {
    try {
      await this.#verifyOnce(layer)
    } catch (error) {
      if (layer.urls === undefined || errorCode(error) !== 'ENOENT') throw error
      const from = layer.urls.length === 0 ? '' : `, from ${layer.urls.join(', ')}`
      throw new StoreError(
        'failed',
        `the layer ${layer.digest} is non-distributable (${layer.mediaType}${from}), so it was not pulled; a box must contain all layers`,
      )
    }
  }

  #entryOf({ name, image, digest }: StoredService): Descriptor {
    const { manifest } = this.#verified.get(name) ?? {}
    if (!manifest) throw new StoreError('failed', `the image of ${name} was not verified`)
    const annotations = { [REF_NAME]: name, [IMAGE_ANNOTATION]: image, [DIGEST_ANNOTATION]: digest }
    return { ...manifest, annotations }
  }

  /** Removes the tool's folders, and blobs of failed attempts. */
  async #removeTemporaryFiles(): Promise<void> {
    await rm(join(this.#options.path, '.services'), { recursive: true, force: true })
    await rm(this.temporary, { recursive: true, force: true })
    const needed = new Set([...this.#verified.values()].flatMap(({ blobs }) => blobs))
    for (const folder of await foldersOf(this.blobs)) {
      const algorithm = folder.slice(this.blobs.length + 1)
      for (const name of await readdir(folder))
        if (!needed.has(`${algorithm}:${name}`)) await rm(join(folder, name))
    }
  }
}

async function readJson(path: string): Promise<unknown> {
  const { size } = await stat(path)
  if (size > MAX_MANIFEST_BYTES) throw new StoreError('damaged', `${path} is too large`)
  return JSON.parse(await readFile(path, 'utf8'))
}

/** Undefined for what is too large for the config of an image, or is no JSON. */
async function readSmallJson(path: string): Promise<unknown> {
  const { size } = await stat(path)
  return size > MAX_MANIFEST_BYTES ? undefined : tryParseJson(await readFile(path, 'utf8'))
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

export type BoxStoreOptions = {
  output: string
  template: string
  /** Name of this bake. */
  bake: string
  clock: Pick<Clock, 'now'>
} & FolderOptions

type FolderOptions = Pick<LayoutFolderOptions, 'log' | 'signal' | 'sync'>

export function createBoxStore({ output, template, bake, clock, ...options }: BoxStoreOptions): BoxStore {
  const bakes = join(output, BAKES_FOLDER, template)
  const link = join(output, template)
  return {
    open: () =>
      withStoreErrors(async () => {
        await mkdir(bakes, { recursive: true })
        const live = await liveBake(link)
        for (const name of await readdir(bakes))
          if (name !== live) await rm(join(bakes, name), { recursive: true, force: true })
        // A bake that runs again after it was published must not touch the live folder.
        const path = join(bakes, live === bake ? `${bake}.again` : bake)
        const folder = await openFolder({ ...options, path, link })
        await removeAbandonedBakes({ ...options, output, template, bake: path, now: clock.now() })
        return folder
      }),
  }
}

/** For images that are only pulled and verified, never published. */
export function createScratchStore(folder: string, options: FolderOptions): BoxStore {
  return {
    open: () =>
      withStoreErrors(async () => {
        await rm(folder, { recursive: true, force: true })
        return await openFolder({ ...options, path: folder, link: undefined })
      }),
  }
}

async function openFolder(options: LayoutFolderOptions): Promise<LayoutFolder> {
  const folder = new LayoutFolder(options)
  await mkdir(folder.blobs, { recursive: true })
  await mkdir(folder.temporary)
  return folder
}

/** The bake that is published. @throws StoreError if the name is taken by something other than a link */
async function liveBake(link: string): Promise<string | undefined> {
  try {
    return basename(await readlink(link))
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT') return undefined
    if (code !== 'EINVAL') throw error
    throw new StoreError(
      'failed',
      `${link} was not created by a bake, so Davit will not replace it; rename the template, or use another volume for the box`,
    )
  }
}

/** A week, many times the duration of a bake, so that the clocks of nodes and file servers may differ by days. */
const ABANDONED_AFTER_MS = 14 * MAX_DEADLINE_SECONDS * 1000
/** Templates that one bake cleans up after. */
const MAX_SWEPT_TEMPLATES = 1000

type SweepOptions = Pick<LayoutFolderOptions, 'log' | 'signal'> & {
  output: string
  /** The template of this bake, whose own folders are left alone. */
  template: string
  /** The folder of this bake, made just now. */
  bake: string
  now: number
}

/**
 * Removes what killed bakes left of templates that are gone or not baked any more.
 *
 * Nothing on a volume tells whether a bake is running: its pod may be on another node, and not every file system has locks. So age
 * decides. Every bake has its own folder, made when it starts, and ends within hours; a folder that has not changed for a week is
 * abandoned. A process that was frozen for so long finds its folder gone, and fails. Complete layouts and targets of links stay, since
 * they may be in use. Never throws.
 */
async function removeAbandonedBakes({ now: clockNow, ...options }: SweepOptions): Promise<void> {
  const { output, template, bake, log, signal } = options
  try {
    // The volume may use another machine's clock: a folder must be old by both.
    const now = Math.min(clockNow, (await lstat(bake)).mtimeMs)
    const links = await linksIn(output)
    const templates = (await foldersOf(join(output, BAKES_FOLDER))).map((path) => basename(path))
    const others = templates.filter((name) => name !== template)
    for (const other of others.slice(0, MAX_SWEPT_TEMPLATES))
      for (const name of await readdir(join(output, BAKES_FOLDER, other))) {
        if (signal?.aborted) return
        const path = join(output, BAKES_FOLDER, other, name)
        if (links.some((target) => `/${target}/`.includes(`/${other}/${name}/`))) continue
        if (!(await isAbandoned(path, now))) continue
        log.warn('abandoned_bake_removed', 'removing the folder of an abandoned bake', { path })
        await rm(path, { recursive: true, force: true })
      }
  } catch (error) {
    log.warn('abandoned_bakes_sweep_failed', 'failed to check for abandoned bakes', { error })
  }
}

async function linksIn(folder: string): Promise<string[]> {
  const links = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isSymbolicLink())
  return await Promise.all(links.map(({ name }) => readlink(join(folder, name))))
}

/** Whether the folder and everything directly in it is old, and it is no complete layout. */
async function isAbandoned(path: string, now: number): Promise<boolean> {
  const itself = await lstat(path)
  const names = itself.isDirectory() ? await readdir(path) : []
  if (names.includes('index.json')) return false
  const parts = await Promise.all(names.map((name) => lstat(join(path, name))))
  return [itself, ...parts].every(({ mtimeMs }) => now - mtimeMs > ABANDONED_AFTER_MS)
}
