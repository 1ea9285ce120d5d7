/**
 * Runs the container of a Job as a process, as a kubelet would run it: with the environment that the Job gives it, a folder for each of
 * its volumes, the token that is projected for its ServiceAccount, and what it leaves as its termination message in the status of its pod.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { MAX_RESULT_BYTES } from '../../src/api/bake-result.ts'
import { makeToken } from './api-keys.ts'
import type { JobStandIn } from './job-stand-in.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

const container = z.object({
  args: z.array(z.string()),
  env: z.array(z.object({ name: z.string(), value: z.string() })),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
  terminationMessagePath: z.string(),
})
const token = z.object({ audience: z.string(), path: z.string() })
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

export type PodEnd = { code: number | null; log: string; message: string }

/** A node with the volumes of its claims, which outlive pods. */
export class TestNode {
  readonly folder = mkdtempSync(join(tmpdir(), 'davit-node-'))
  readonly #bed: JobStandIn
  #pods = 0

  constructor(bed: JobStandIn) {
    this.#bed = bed
  }

  volumeOf(claim: string): string {
    return join(this.folder, 'volumes', claim)
  }

  /** The Job of a template that is not over, to its end. */
  async run(template: string): Promise<PodEnd> {
    const job = await this.#bed.job(template)
    const pod = await this.#bed.run(job)
    const spec = podSpec.parse(job.spec.template.spec)
    this.#pods += 1
    const folder = join(this.folder, `pod-${this.#pods}`)
    const mounts = await this.#mount(spec, folder)
    const end = await this.#start(spec.containers[0], mounts, join(folder, 'termination-log'))
    rmSync(folder, { recursive: true, force: true })
    await this.#bed.end(job, { pod, message: end.message, exitCode: end.code ?? 137 })
    return end
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** @returns the folder of each path that the container knows */
  async #mount(spec: z.infer<typeof podSpec>, folder: string): Promise<Map<string, string>> {
    const mounts = new Map<string, string>()
    for (const { name, mountPath } of spec.containers[0].volumeMounts) {
      const of = spec.volumes.find((each) => each.name === name)
      const claim = of?.persistentVolumeClaim?.claimName
      const place = claim === undefined ? join(folder, name) : this.volumeOf(claim)
      mkdirSync(place, { recursive: true })
      mounts.set(mountPath, place)
      if (of?.configMap) {
        const data = await this.#bed.configMapData(of.configMap.name)
        for (const { key, path } of of.configMap.items) writeFileSync(join(place, path), data[key] ?? '')
      }
      for (const { serviceAccountToken: wanted } of of?.projected?.sources ?? []) {
        const audiences = [wanted.audience]
        const made = await makeToken(this.#bed.organization, spec.serviceAccountName, { audiences })
        writeFileSync(join(place, wanted.path), made, { mode: 0o600 })
      }
    }
    return mounts
  }

  async #start(
    { args, env }: z.infer<typeof container>,
    mounts: ReadonlyMap<string, string>,
    messagePath: string,
  ): Promise<PodEnd> {
    const own = env.map(({ name, value }) => [name, placed(value, mounts)] as const)
    const child = spawn(process.execPath, [MAIN, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        DAVIT_TERMINATION_LOG: messagePath,
        DAVIT_SCRATCH: mounts.get('/output'),
        ...Object.fromEntries(own),
      },
    })
    const exit = once(child, 'exit') as Promise<[number | null]>
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), exit])
    const left = existsSync(messagePath) ? readFileSync(messagePath) : Buffer.alloc(0)
    return { code, log: stdout + stderr, message: left.subarray(0, MAX_RESULT_BYTES).toString('utf8') }
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
