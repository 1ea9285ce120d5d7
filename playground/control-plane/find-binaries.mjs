// Finds the programs of the control plane on this machine. In plain JavaScript, since the set-up looks for them before there is a
// Node that strips types.

import { execFile } from 'node:child_process'
import { access, constants, readdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** The version that the Go module of tools/control-plane builds. */
export const KUBERNETES_VERSION = 'v1.36.3'

/** Other patches of this minor are accepted if they are available. */
export const KUBERNETES_MINOR = '1.36'

export const SERVERS = ['etcd', 'kube-apiserver']
export const PROGRAMS = [...SERVERS, 'kubectl']

/** The oldest minor of Kubernetes 1 that Davit supports, which applies to clients as well. */
const OLDEST_MINOR = 32

const CALL_LIMIT_MS = 30_000
const GO_ARCH = { x64: 'amd64' }

/** @param {NodeJS.ProcessEnv} env */
export function binaryCache(env) {
  const caches = env.XDG_CACHE_HOME || join(homedir(), '.cache')
  return {
    root: join(caches, 'davit', 'control-plane'),
    platform: `${process.platform}-${GO_ARCH[process.arch] ?? process.arch}`,
  }
}

/**
 * The programs in the cache: of the version that is built here, otherwise of the newest other patch.
 *
 * @returns undefined if one is missing
 */
export async function cachedBinaries(cache, env) {
  const suffix = `-${cache.platform}`
  const folders = (await namesIn(cache.root))
    .filter((name) => name.startsWith(`v${KUBERNETES_MINOR}.`) && name.endsWith(suffix))
    .sort((a, b) => rank(b, suffix) - rank(a, suffix))
    .map((name) => join(cache.root, name))
  for (const folder of folders) {
    if (await hasPrograms(folder, SERVERS)) return await binariesIn(folder, env)
  }
  return undefined
}

/**
 * The programs in a folder; kubectl may be the host's.
 *
 * @returns undefined if one is missing
 */
export async function binariesIn(folder, env) {
  if (!(await hasPrograms(folder, SERVERS))) return undefined
  const kubectl = (await hasPrograms(folder, ['kubectl']))
    ? join(folder, 'kubectl')
    : await findHostKubectl(env)
  if (kubectl === undefined) return undefined
  return { etcd: join(folder, 'etcd'), kubeApiserver: join(folder, 'kube-apiserver'), kubectl }
}

/** Finds the host's kubectl if it is new enough. */
export async function findHostKubectl(env) {
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    const path = join(folder, 'kubectl')
    if (folder !== '' && (await isExecutable(path))) {
      return (await minorOf(path, env)) >= OLDEST_MINOR ? path : undefined
    }
  }
  return undefined
}

async function minorOf(kubectl, env) {
  try {
    const args = ['version', '--client', '-o', 'json']
    const { stdout } = await promisify(execFile)(kubectl, args, { env, timeout: CALL_LIMIT_MS })
    // Vendors append a mark, as in "32+".
    return Number.parseInt(JSON.parse(stdout).clientVersion?.minor ?? '', 10)
  } catch {
    return Number.NaN
  }
}

async function hasPrograms(folder, programs) {
  return (await Promise.all(programs.map((program) => isExecutable(join(folder, program))))).every(Boolean)
}

async function isExecutable(path) {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

function rank(name, suffix) {
  const version = name.slice(0, -suffix.length)
  return version === KUBERNETES_VERSION ? Number.POSITIVE_INFINITY : Number(version.split('.')[2])
}

/** @returns none for a folder that does not exist */
export async function namesIn(folder) {
  try {
    return await readdir(folder)
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}
