import { execFile } from 'node:child_process'
import { access, constants, mkdir, rm } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { withProcessLock } from '../../tools/process-lock.mjs'
import {
  adopt,
  type BinaryCache,
  binaryCache,
  findCached,
  hasPrograms,
  KUBERNETES_MINOR,
  openStaging,
  PROGRAMS,
  type ProgramName,
  type Progress,
  progressTo,
} from './cache.ts'
import { buildBinaries, downloadBinaries } from './install.ts'

/** The oldest minor of Kubernetes 1 that Davit supports, which applies to clients as well. */
const OLDEST_MINOR = 32

const CALL_LIMIT_MS = 30_000

/** Finds the host's kubectl if it is new enough. */
async function findHostKubectl(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    const path = join(folder, 'kubectl')
    if (folder !== '' && (await isExecutable(path))) {
      return (await minorOf(path, env)) >= OLDEST_MINOR ? path : undefined
    }
  }
  return undefined
}

async function minorOf(kubectl: string, env: NodeJS.ProcessEnv): Promise<number> {
  try {
    const args = ['version', '--client', '-o', 'json']
    const { stdout } = await promisify(execFile)(kubectl, args, { env, timeout: CALL_LIMIT_MS })
    const answer = JSON.parse(stdout) as { clientVersion?: { minor?: string } }
    // Vendors append a mark, as in "32+".
    return Number.parseInt(answer.clientVersion?.minor ?? '', 10)
  } catch {
    return Number.NaN
  }
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

/** Paths of the programs. */
export type ControlPlaneBinaries = { etcd: string; kubeApiserver: string; kubectl: string }

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

const SERVERS: readonly ProgramName[] = ['etcd', 'kube-apiserver']

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
  const found = await inFolder(folder, env)
  if (found !== undefined) return found
  throw new ControlPlaneUnavailable(
    `KUBEBUILDER_ASSETS is ${folder}, which must contain ${PROGRAMS.join(', ')} (kubectl may be on the PATH)`,
  )
}

async function cachedBinaries(
  cache: BinaryCache,
  env: NodeJS.ProcessEnv,
): Promise<ControlPlaneBinaries | undefined> {
  const folder = await findCached(cache, SERVERS)
  return folder === undefined ? undefined : inFolder(folder, env)
}

/** Undefined if one of the programs is missing. */
async function inFolder(folder: string, env: NodeJS.ProcessEnv): Promise<ControlPlaneBinaries | undefined> {
  if (!(await hasPrograms(folder, SERVERS))) return undefined
  const kubectl = (await hasPrograms(folder, ['kubectl']))
    ? join(folder, 'kubectl')
    : await findHostKubectl(env)
  if (kubectl === undefined) return undefined
  return { etcd: join(folder, 'etcd'), kubeApiserver: join(folder, 'kube-apiserver'), kubectl }
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
      const made = await inFolder(await adopt(cache, staging, version), env)
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
