/** Builds small images for a registry of the tests. */
import { createHash, randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { tarOf } from './tar.ts'

export type Blob = { digest: string; bytes: Buffer }

export type Image = {
  /** The config and the layers. */
  blobs: readonly Blob[]
  manifest: Blob
  mediaType: string
  platform: { os: string; architecture: string }
}

export type ImageOptions = {
  /** Content of the layers; equal text makes equal layers. A number makes a layer of that many random bytes. */
  layers: readonly (string | number)[]
  /** Program that a container runs; it needs nothing else from the image. */
  program?: Buffer
  architecture?: string
  /** Other locations of every layer. */
  urls?: readonly string[]
  /** In Docker's format instead of OCI's. */
  docker?: boolean
}

const OCI = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
}
const DOCKER = {
  manifest: 'application/vnd.docker.distribution.manifest.v2+json',
  config: 'application/vnd.docker.container.image.v1+json',
  layer: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
}

export function makeImage(options: ImageOptions): Image {
  const { layers, program, urls, architecture = 'amd64', docker = false } = options
  const types = docker ? DOCKER : OCI
  const archives = layers.map((content, index) => {
    const bytes = typeof content === 'number' ? randomBytes(content) : content
    const name = `layer-${typeof content === 'number' ? index : sha256(Buffer.from(content)).slice(7, 15)}`
    return tarOf({ [name]: bytes })
  })
  if (program) archives.push(tarOf({ program }, 0o755))
  const packed = archives.map((archive) => blobOf(gzipSync(archive, { level: 1 })))
  const config = blobOf(
    JSON.stringify({
      architecture,
      os: 'linux',
      created: '2026-01-31T12:00:00Z',
      config: { Cmd: [program ? '/program' : '/bin/true'] },
      rootfs: { type: 'layers', diff_ids: archives.map(sha256) },
      history: archives.map(() => ({ created: '2026-01-31T12:00:00Z', created_by: 'the tests' })),
    }),
  )
  const manifest = blobOf(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: types.manifest,
      config: descriptorOf(config, types.config),
      layers: packed.map((layer) => ({ ...descriptorOf(layer, types.layer), ...(urls && { urls }) })),
    }),
  )
  const platform = { os: 'linux', architecture }
  return { blobs: [config, ...packed], manifest, mediaType: types.manifest, platform }
}

export type ImageIndex = { images: readonly Image[]; manifest: Blob; mediaType: string }

/** Builds one name for several platforms. */
export function makeIndex(images: readonly Image[]): ImageIndex {
  const manifests = images.map(({ manifest, mediaType, platform }) => ({
    ...descriptorOf(manifest, mediaType),
    platform,
  }))
  const mediaType = OCI.index
  return { images, mediaType, manifest: blobOf(JSON.stringify({ schemaVersion: 2, mediaType, manifests })) }
}

export function blobOf(content: Buffer | string): Blob {
  const bytes = Buffer.from(content)
  return { digest: sha256(bytes), bytes }
}

function descriptorOf({ digest, bytes }: Blob, mediaType: string) {
  return { mediaType, digest, size: bytes.length }
}

function sha256(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}
