/** Brings the image to where nodes pull it from. */
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildImage } from '../image/image.ts'
import { command } from './commands.ts'
import type { E2eOptions } from './e2e-options.ts'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const BUILD_LIMIT_MS = 30 * 60_000
const PUSH_LIMIT_MS = 10 * 60_000
const MIB = 2 ** 20

/** @param folder for what is made @returns the size of its layers, in words */
export async function pushImage(options: E2eOptions, folder: string): Promise<string> {
  const { image, push } = options
  if (push === undefined) return 'not looked at: it was in the registry already'
  const layout = options.oci ?? join(folder, 'image')
  if (options.oci === undefined) await buildImage(layout)
  const reference = `${image.repository}:${image.tag}`
  const archive = join(folder, 'image.tar')
  await command(
    'skopeo',
    ['copy', '--quiet', `oci:${layout}:davit`, `docker-archive:${archive}:${reference}`],
    {
      limitMs: PUSH_LIMIT_MS,
    },
  )
  const name = reference.slice(reference.indexOf('/') + 1)
  const env = { ...process.env, ARCHIVE: archive, IMAGE: reference, NAME: name }
  await command('sh', ['-e', '-c', push], { env, limitMs: PUSH_LIMIT_MS })
  await rm(archive)
  return `${await packedMiB(layout)} MiB packed`
}

/** By Docker, for a cluster of kind on this machine. */
export async function dockerImage(reference: string): Promise<string> {
  const epoch = (await command('git', ['log', '-1', '--format=%ct'], { cwd: ROOT })).trim()
  const version = reference.slice(reference.lastIndexOf(':') + 1)
  const build = ['--build-arg', `SOURCE_DATE_EPOCH=${epoch}`, '--build-arg', `VERSION=${version}`]
  await command('docker', ['build', '--quiet', ...build, '--tag', reference, '.'], {
    cwd: ROOT,
    limitMs: BUILD_LIMIT_MS,
  })
  const bytes = await command('docker', ['image', 'inspect', '--format', '{{.Size}}', reference])
  return `${Math.round(Number(bytes) / MIB)} MiB unpacked`
}

async function packedMiB(layout: string): Promise<number> {
  const read = async (path: string) => JSON.parse(await readFile(join(layout, path), 'utf8')) as unknown
  const index = (await read('index.json')) as { manifests: { digest: string }[] }
  const digest = index.manifests.at(-1)?.digest ?? ''
  const { layers } = (await read(`blobs/sha256/${digest.slice(7)}`)) as { layers: { size: number }[] }
  return Math.round(layers.reduce((sum, { size }) => sum + size, 0) / MIB)
}
