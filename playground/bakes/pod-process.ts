/**
 * Runs the container of a Job as a process, the way a kubelet would: with the Job's environment, a folder for each volume, the
 * projected token of its ServiceAccount, and its termination message.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { MAX_RESULT_BYTES } from '../../src/apis/bake.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** Exit code that a kubelet reports for a killed container. */
const KILLED = 137

const container = z.object({
  args: z.array(z.string()),
  env: z.array(z.object({ name: z.string(), value: z.string() })),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
})
const token = z.object({ audience: z.string(), path: z.string(), expirationSeconds: z.number() })
const volume = z.object({
  name: z.string(),
  persistentVolumeClaim: z.object({ claimName: z.string() }).optional(),
  configMap: z
    .object({ name: z.string(), items: z.array(z.object({ key: z.string(), path: z.string() })) })
    .optional(),
  projected: z.object({ sources: z.array(z.object({ serviceAccountToken: token })) }).optional(),
})
const podSpec = z.object({
  serviceAccountName: z.string().default('default'),
  containers: z.tuple([container]),
  volumes: z.array(volume),
})
type PodSpec = z.infer<typeof podSpec>

export type ProjectedToken = { serviceAccount: string; audience: string; seconds: number }

/** What a node provides to a pod. */
export type PodHost = {
  /** For this pod only, and removed with it. */
  folder: string
  /** The volume of a claim; it outlives pods. */
  volumeOf(claim: string): string
  token(of: ProjectedToken): Promise<string>
  /** Reads a ConfigMap of the pod's namespace. Absent: there are no ConfigMaps. */
  configMap?: (name: string) => Promise<Readonly<Record<string, string>>>
  /** In addition to the environment of the Job. */
  environment?: Readonly<Record<string, string>>
  /** Receives output as it is written. */
  onOutput?: (text: string) => void
}

export type PodEnd = { code: number; log: string; message: string }

export type RunningPod = { ended: Promise<PodEnd>; kill(signal: 'SIGTERM' | 'SIGKILL'): void }

/** @param spec of the pod, from its Job @throws Error if a volume cannot be created */
export async function startPod(spec: unknown, host: PodHost): Promise<RunningPod> {
  const pod = podSpec.parse(spec)
  const mounts = await mount(pod, host)
  const messagePath = join(host.folder, 'termination-log')
  const child = start(pod, mounts, { host, messagePath })
  const ended = endOf(child, host.onOutput).then(({ code, log }) => {
    const left = existsSync(messagePath) ? readFileSync(messagePath) : Buffer.alloc(0)
    rmSync(host.folder, { recursive: true, force: true })
    return { code, log, message: left.subarray(0, MAX_RESULT_BYTES).toString('utf8') }
  })
  return { ended, kill: (signal) => killGroup(child, signal) }
}

/** @returns the folder behind each mount path of the container */
async function mount(pod: PodSpec, host: PodHost): Promise<Map<string, string>> {
  const mounts = new Map<string, string>()
  for (const { name, mountPath } of pod.containers[0].volumeMounts) {
    const of = pod.volumes.find((each) => each.name === name)
    const claim = of?.persistentVolumeClaim?.claimName
    const folder = claim === undefined ? join(host.folder, name) : host.volumeOf(claim)
    mkdirSync(folder, { recursive: true })
    mounts.set(mountPath, folder)
    if (of?.configMap) {
      const data = (await host.configMap?.(of.configMap.name)) ?? {}
      for (const { key, path } of of.configMap.items) writeFileSync(join(folder, path), data[key] ?? '')
    }
    for (const { serviceAccountToken: wanted } of of?.projected?.sources ?? []) {
      const { audience, expirationSeconds: seconds, path } = wanted
      const made = await host.token({ serviceAccount: pod.serviceAccountName, audience, seconds })
      writeFileSync(join(folder, path), made, { mode: 0o600 })
    }
  }
  return mounts
}

function start(
  { containers: [{ args, env }] }: PodSpec,
  mounts: ReadonlyMap<string, string>,
  { host, messagePath }: { host: PodHost; messagePath: string },
): ChildProcess {
  const own = env.map(({ name, value }) => [name, replaceMounts(value, mounts)] as const)
  // The pod ends with this process, however that ends. Its own process group lets its children end with it.
  const command = ['--pdeathsig', 'KILL', process.execPath, MAIN, ...args]
  return spawn('setpriv', command, {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      DAVIT_TERMINATION_LOG: messagePath,
      DAVIT_SCRATCH: mounts.get('/output'),
      ...host.environment,
      ...Object.fromEntries(own),
    },
  })
}

async function endOf(child: ChildProcess, onOutput: PodHost['onOutput']) {
  let log = ''
  const take = (text: string) => {
    log += text
    onOutput?.(text)
  }
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', take)
  const code = await new Promise<number | null>((resolve) => {
    child.once('close', resolve)
    child.once('error', (error) => {
      take(`failed to start the pod: ${error.message}\n`)
      resolve(null)
    })
  })
  return { code: code ?? KILLED, log }
}

function killGroup({ pid }: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch {
    // The process has already ended.
  }
}

/** Replaces mount paths of the container by their folders, in the `output` of an order as well. */
function replaceMounts(value: string, mounts: ReadonlyMap<string, string>): string {
  for (const [path, folder] of mounts) {
    if (value === path || value.startsWith(`${path}/`)) return folder + value.slice(path.length)
  }
  return value.startsWith('{')
    ? value.replace('"path":"/output"', `"path":"${mounts.get('/output')}"`)
    : value
}
