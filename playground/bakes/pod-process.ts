/**
 * Runs the container of a Job as a process, as a kubelet would run it: with the environment that the Job gives it, a folder for each of
 * its volumes, the token that is projected for its ServiceAccount, and what it leaves as its termination message.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { MAX_RESULT_BYTES } from '../../src/apis/bake.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** As a kubelet has it where a container was killed. */
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

/** What a node has for a pod. */
export type PodPlace = {
  /** For this pod alone, and gone with it. */
  folder: string
  /** The volume of a claim, which outlives pods. */
  volumeOf(claim: string): string
  token(of: ProjectedToken): Promise<string>
  /** What is in a ConfigMap of the pod's namespace. Absent: no pod has one. */
  configMap?: (name: string) => Promise<Readonly<Record<string, string>>>
  /** Besides the Job's own. */
  environment?: Readonly<Record<string, string>>
  /** Told what it writes, as it comes. */
  onOutput?: (text: string) => void
}

export type PodEnd = { code: number; log: string; message: string }

export type RunningPod = { ended: Promise<PodEnd>; kill(signal: 'SIGTERM' | 'SIGKILL'): void }

/** @param spec of the pod, as its Job has it @throws Error where a volume cannot be made */
export async function startPod(spec: unknown, place: PodPlace): Promise<RunningPod> {
  const pod = podSpec.parse(spec)
  const mounts = await mount(pod, place)
  const messagePath = join(place.folder, 'termination-log')
  const child = start(pod, mounts, { place, messagePath })
  const ended = endOf(child, place.onOutput).then(({ code, log }) => {
    const left = existsSync(messagePath) ? readFileSync(messagePath) : Buffer.alloc(0)
    rmSync(place.folder, { recursive: true, force: true })
    return { code, log, message: left.subarray(0, MAX_RESULT_BYTES).toString('utf8') }
  })
  return { ended, kill: (signal) => killGroup(child, signal) }
}

/** @returns the folder of each path that the container knows */
async function mount(pod: PodSpec, place: PodPlace): Promise<Map<string, string>> {
  const mounts = new Map<string, string>()
  for (const { name, mountPath } of pod.containers[0].volumeMounts) {
    const of = pod.volumes.find((each) => each.name === name)
    const claim = of?.persistentVolumeClaim?.claimName
    const folder = claim === undefined ? join(place.folder, name) : place.volumeOf(claim)
    mkdirSync(folder, { recursive: true })
    mounts.set(mountPath, folder)
    if (of?.configMap) {
      const data = (await place.configMap?.(of.configMap.name)) ?? {}
      for (const { key, path } of of.configMap.items) writeFileSync(join(folder, path), data[key] ?? '')
    }
    for (const { serviceAccountToken: wanted } of of?.projected?.sources ?? []) {
      const { audience, expirationSeconds: seconds, path } = wanted
      const made = await place.token({ serviceAccount: pod.serviceAccountName, audience, seconds })
      writeFileSync(join(folder, path), made, { mode: 0o600 })
    }
  }
  return mounts
}

function start(
  { containers: [{ args, env }] }: PodSpec,
  mounts: ReadonlyMap<string, string>,
  { place, messagePath }: { place: PodPlace; messagePath: string },
): ChildProcess {
  const own = env.map(({ name, value }) => [name, placed(value, mounts)] as const)
  // Ends with this process, however that ends. A group of its own, so that what it has started ends with it.
  const command = ['--pdeathsig', 'KILL', process.execPath, MAIN, ...args]
  return spawn('setpriv', command, {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      DAVIT_TERMINATION_LOG: messagePath,
      DAVIT_SCRATCH: mounts.get('/output'),
      ...place.environment,
      ...Object.fromEntries(own),
    },
  })
}

async function endOf(child: ChildProcess, onOutput: PodPlace['onOutput']) {
  let log = ''
  const take = (text: string) => {
    log += text
    onOutput?.(text)
  }
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', take)
  const code = await new Promise<number | null>((resolve) => {
    child.once('close', resolve)
    child.once('error', (error) => {
      take(`the pod cannot be run: ${error.message}\n`)
      resolve(null)
    })
  })
  return { code: code ?? KILLED, log }
}

function killGroup({ pid }: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch {
    // It has ended.
  }
}

/** What names a path of the container names the folder that stands for it; so does the output in an order. */
function placed(value: string, mounts: ReadonlyMap<string, string>): string {
  for (const [path, folder] of mounts) {
    if (value === path || value.startsWith(`${path}/`)) return folder + value.slice(path.length)
  }
  return value.startsWith('{')
    ? value.replace('"path":"/output"', `"path":"${mounts.get('/output')}"`)
    : value
}
