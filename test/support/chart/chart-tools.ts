/**
 * Helm 3, Helm 4 and kubeconform: built from their Go modules, which tools/chart pins, and cached. It takes three minutes the
 * first time; DAVIT_CHART_TOOLS names a folder that already contains them.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { withProcessLock } from '../../../tools/process-lock.mjs'

const run = promisify(execFile)

export type ChartTool = 'helm3' | 'helm4' | 'kubeconform'

const MODULE = fileURLToPath(new URL('../../../tools/chart', import.meta.url))
const PACKAGES: Readonly<Record<ChartTool, string>> = {
  helm3: 'helm.sh/helm/v3/cmd/helm',
  helm4: 'helm.sh/helm/v4/cmd/helm',
  kubeconform: 'github.com/yannh/kubeconform/cmd/kubeconform',
}
/** Of a hook that builds the programs, or waits for another process that does. */
export const BUILD_LIMIT_MS = 30 * 60_000
const GO_ENV = { CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' }

/**
 * @param announce called before each program that has to be built
 * @returns the folder of the programs
 */
export async function findChartTools(
  announce: (line: string) => void = () => {},
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  if (env.DAVIT_CHART_TOOLS) return env.DAVIT_CHART_TOOLS
  const root = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'davit', 'chart-tools')
  const sums = await readFile(join(MODULE, 'go.sum'))
  const version = createHash('sha256').update(sums).digest('hex').slice(0, 12)
  const folder = join(root, `${version}-${process.platform}-${process.arch}`)
  if (await isThere(folder)) return folder
  await mkdir(root, { recursive: true })
  await withProcessLock(
    join(root, 'lock'),
    async () => {
      if (!(await isThere(folder))) await build(root, folder, announce, env)
    },
    { timeoutMs: BUILD_LIMIT_MS },
  )
  return folder
}

/** Adds a folder to the cache atomically. */
async function build(
  root: string,
  folder: string,
  announce: (line: string) => void,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const staging = await mkdtemp(join(root, '.making-'))
  try {
    for (const [index, [name, path]] of Object.entries(PACKAGES).entries()) {
      announce(`building ${name} for the chart's tests (once, ${index + 1} of 3, about a minute each)`)
      const args = ['build', '-mod=readonly', '-buildvcs=false', '-trimpath', '-ldflags', '-s -w']
      await run('go', [...args, '-o', join(staging, name), path], {
        cwd: MODULE,
        env: { ...env, ...GO_ENV },
        maxBuffer: 2 ** 24,
        timeout: BUILD_LIMIT_MS,
      })
    }
    await rename(staging, folder)
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
