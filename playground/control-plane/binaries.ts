import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { withProcessLock } from '../../tools/process-lock.mjs'
import { adopt, openStaging, type Progress, progressTo } from './cache.ts'
import {
  type BinaryCache,
  binariesIn,
  binaryCache,
  type ControlPlaneBinaries,
  cachedBinaries,
  findHostKubectl,
  KUBERNETES_MINOR,
  PROGRAMS,
  type ProgramName,
  SERVERS,
} from './find-binaries.mjs'
import { buildBinaries, downloadBinaries } from './install.ts'

/** There are no binaries and no way to get some. The message lists the options; a stack would not help. */
export class ControlPlaneUnavailable extends Error {
  override readonly name = 'ControlPlaneUnavailable'
}

/** A way to get programs. */
export type BinarySource = {
  /** For messages: "<name> failed". */
  name: string
  /** Fills an empty folder with at least these programs; returns their Kubernetes version. Rejects with the reason. */
  make(into: string, programs: readonly ProgramName[], progress: Progress): Promise<string>
}

export type FindOptions = { env?: NodeJS.ProcessEnv; progress?: Progress; sources?: readonly BinarySource[] }

/** Downloading and building are both slow. */
const MAKE_LIMIT_MS = 60 * 60_000

/**
 * Finds etcd, API server and kubectl: in the folder of KUBEBUILDER_ASSETS or in the cache; otherwise downloads or builds them.
 * kubectl is the host's if it is new enough. The first process makes the programs, others wait for it.
 *
 * @throws ControlPlaneUnavailable
 */
export async function findControlPlaneBinaries(options: FindOptions = {}): Promise<ControlPlaneBinaries> {
  const env = options.env ?? process.env
  if (env.KUBEBUILDER_ASSETS) return givenBinaries(env.KUBEBUILDER_ASSETS, env)
  const cache = binaryCache(env)
  const found = await cachedBinaries(cache, env)
  if (found !== undefined) return found
  const progress = options.progress ?? progressTo(process.stderr)
  const sources = options.sources ?? defaultSources(env)
  await mkdir(cache.root, { recursive: true })
  return withProcessLock(join(cache.root, 'lock'), () => makeBinaries(cache, { env, progress, sources }), {
    timeoutMs: MAKE_LIMIT_MS,
    onWait: (pid) => progress.show(`waiting for process ${pid} to provide the control plane binaries`),
  })
}

async function givenBinaries(folder: string, env: NodeJS.ProcessEnv): Promise<ControlPlaneBinaries> {
  const found = await binariesIn(folder, env)
  if (found !== undefined) return found
  throw new ControlPlaneUnavailable(
    `KUBEBUILDER_ASSETS is ${folder}, which must contain ${PROGRAMS.join(', ')} (kubectl may be on the PATH)`,
  )
}

async function makeBinaries(
  cache: BinaryCache,
  { env, progress, sources }: Required<FindOptions>,
): Promise<ControlPlaneBinaries> {
  // The previous holder of the lock has probably made them.
  const found = await cachedBinaries(cache, env)
  if (found !== undefined) return found
  const programs = (await findHostKubectl(env)) === undefined ? PROGRAMS : SERVERS
  const failures: string[] = []
  for (const source of sources) {
    const staging = await openStaging(cache)
    try {
      const version = await source.make(staging, programs, progress)
      const made = await binariesIn(await adopt(cache, staging, version), env)
      if (made !== undefined) return made
      failures.push(`${source.name} did not provide all of ${programs.join(', ')}`)
    } catch (error) {
      failures.push(`${source.name} failed: ${(error as Error).message}`)
    } finally {
      await rm(staging, { recursive: true, force: true })
      progress.end()
    }
  }
  throw new ControlPlaneUnavailable(adviceAfter(failures))
}

function defaultSources(env: NodeJS.ProcessEnv): BinarySource[] {
  return [
    { name: 'download', make: (into, _programs, progress) => downloadBinaries(into, progress) },
    { name: 'build', make: (into, programs, progress) => buildBinaries(into, programs, progress, env) },
  ]
}

function adviceAfter(failures: readonly string[]): string {
  return [
    `The control plane binaries of Kubernetes ${KUBERNETES_MINOR} are not available.`,
    ...failures.map((failure) => `  ${failure}`),
    'Do one of the following, once:',
    '  Connect to GitHub, to download the binaries.',
    '  Install Go 1.26 or later (https://go.dev/dl) and connect to a Go module proxy, to build them.',
    `  Set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl ${KUBERNETES_MINOR}.`,
  ].join('\n')
}
