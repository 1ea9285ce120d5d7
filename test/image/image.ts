/** An image as an OCI layout, and its file system. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const TOOL = fileURLToPath(new URL('../../tools/image.mjs', import.meta.url))

export type ImageConfig = {
  created: string
  config: { User: string; Env: string[]; Entrypoint: string[]; Labels?: Record<string, string> }
}

export type Image = {
  digest: string
  config: ImageConfig
  packedMiB: number
  unpackedMiB: number
  /** Its file system, a copy of this run. */
  root: string
  close(): Promise<void>
}

type Manifest = { config: { digest: string }; layers: { size: number }[] }

export async function buildImage(out: string): Promise<void> {
  await run(process.execPath, [TOOL, '--out', out], { maxBuffer: 2 ** 26 })
}

/** @param store an empty folder */
export async function openImage(layout: string, store: string): Promise<Image> {
  const blob = async <T>(digest: string) =>
    JSON.parse(await readFile(join(layout, 'blobs', 'sha256', digest.slice(7)), 'utf8')) as T
  const index = JSON.parse(await readFile(join(layout, 'index.json'), 'utf8')) as {
    manifests: { digest: string }[]
  }
  const digest = index.manifests.at(-1)?.digest ?? ''
  const { config, layers } = await blob<Manifest>(digest)
  const options = ['--root', join(store, 'root'), '--runroot', join(store, 'run'), '--storage-driver', 'vfs']
  const buildah = async (...args: string[]) =>
    (await run('buildah', [...options, ...args], { maxBuffer: 2 ** 26 })).stdout.trim()
  const container = await buildah('from', '--quiet', `oci:${layout}:davit`)
  const root = await buildah('mount', container)
  const { stdout: used } = await run('du', ['-sm', root])
  return {
    digest,
    config: await blob<ImageConfig>(config.digest),
    packedMiB: Math.round(layers.reduce((sum, { size }) => sum + size, 0) / 2 ** 20),
    unpackedMiB: Number.parseInt(used, 10),
    root,
    close: async () => {
      await buildah('rm', container)
      await buildah('rmi', '--all', '--force')
    },
  }
}
