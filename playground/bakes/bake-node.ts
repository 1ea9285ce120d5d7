/**
 * Replaces what a control plane without nodes lacks for a bake: the Job controller, the kubelet and the garbage collector. The
 * pods of bakes run here as processes, and their statuses are written the way those components write them.
 */

import { randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { boxTemplates } from '../../src/apis/box-template.ts'
import { jobs, pods } from '../../src/apis/core-kinds.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import { bakeSelector } from '../../src/boxes/controller/bake-job.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../src/kube/client.ts'
import { makeToken } from '../api-keys.ts'
import type { ControlPlane } from '../control-plane/control-plane.ts'
import { type PodEnd, type RunningPod, startPod } from './pod-process.ts'
import { complete, failed, now, running, terminated } from './run-statuses.ts'

const LOOK_EVERY_MS = 250
/** Grace period from SIGTERM to SIGKILL for the pod of a deleted Job. */
const GRACE_MS = 4000
const NAME_BYTES = 3

const metadata = z.object({
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
  deletionTimestamp: z.string().optional(),
  ownerReferences: z.array(z.object({ uid: z.string() })).default([]),
})
const owned = z.object({ metadata })
const job = z.object({
  metadata,
  spec: z.object({ template: z.object({ metadata: z.looseObject({}), spec: z.looseObject({}) }) }),
  status: z.object({ conditions: z.array(z.object({ type: z.string() })).default([]) }).optional(),
})
type Job = z.infer<typeof job>

type Running = { pod?: RunningPod; over: Promise<void>; isLeaving?: true }

export type BakeNodeOptions = {
  api: ResourceReader & ResourceWriter
  access: ControlPlane['access']
  /** Holds all files of this node. */
  folder: string
  /** The AWS endpoint, and the additional authorities that the cluster trusts. */
  environment: Readonly<Record<string, string>>
  /** Output of the pods. */
  logPath: string
}

export class BakeNode {
  readonly #options: BakeNodeOptions
  readonly #log: number
  /** By the uid of the Job. */
  readonly #running = new Map<string, Running>()
  readonly #known = new Set<string>()
  #isStopping = false
  #rounds: Promise<void> = Promise.resolve()

  constructor(options: BakeNodeOptions) {
    this.#options = options
    mkdirSync(options.folder, { recursive: true, mode: 0o700 })
    this.#log = openSync(options.logPath, 'w', 0o600)
  }

  start(): void {
    this.#rounds = this.#run()
  }

  /** Stops all pods. */
  async stop(): Promise<void> {
    this.#isStopping = true
    for (const { pod } of this.#running.values()) pod?.kill('SIGKILL')
    await this.#rounds
    await Promise.all([...this.#running.values()].map(({ over }) => over))
    closeSync(this.#log)
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      await this.#look().catch((error: Error) => this.#note(`${error.message}\n`))
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  }

  async #look(): Promise<void> {
    const all = z.array(job).parse(await this.#list(jobs))
    await this.#collect(all)
    for (const one of all) {
      const { uid, deletionTimestamp } = one.metadata
      if (this.#isStopping || this.#known.has(uid) || isOver(one) || deletionTimestamp !== undefined) continue
      this.#known.add(uid)
      const entry: Running = { over: Promise.resolve() }
      this.#running.set(uid, entry)
      entry.over = this.#bake(one, entry)
        .catch((error: Error) => this.#note(`${one.metadata.name}: ${error.message}\n`))
        .finally(() => this.#running.delete(uid))
    }
  }

  /** Deletes objects whose owner is gone, like the garbage collector. */
  async #collect(all: readonly Job[]): Promise<void> {
    const templates = z.array(owned).parse((await this.#options.api.list(boxTemplates, {})).items)
    const isHeld = ({ metadata }: z.infer<typeof owned>, by: readonly z.infer<typeof owned>[]) =>
      metadata.ownerReferences.some(({ uid }) => by.some((owner) => owner.metadata.uid === uid))
    const held = all.filter((one) => isHeld(one, templates))
    for (const one of all) if (!held.includes(one)) await this.#remove(jobs, one)
    for (const [uid, entry] of this.#running)
      if (!held.some(({ metadata }) => metadata.uid === uid)) leave(entry)
    for (const pod of z.array(owned).parse(await this.#list(pods))) {
      const isRunning = pod.metadata.ownerReferences.some(({ uid }) => this.#running.has(uid))
      if (!isRunning && !isHeld(pod, held)) await this.#remove(pods, pod)
    }
  }

  async #bake(one: Job, entry: Running): Promise<void> {
    const { access, folder, environment } = this.#options
    const { namespace, name } = one.metadata
    const startTime = now()
    const pod = `${name}-${randomBytes(NAME_BYTES).toString('hex')}`
    const host = { namespace, name: pod }
    await this.#make(one, pod)
    await this.#status(jobs, { namespace, name }, { active: 1, startTime })
    const started = await startPod(one.spec.template.spec, {
      folder: join(folder, 'pods', pod),
      volumeOf: (claim) => join(folder, 'volumes', namespace, claim),
      token: ({ serviceAccount, audience, seconds }) => {
        const of = { namespace, name: serviceAccount }
        return makeToken(access, of, { audiences: [audience], seconds })
      },
      environment,
      onOutput: (text) => this.#note(text),
    })
    entry.pod = started
    if (this.#isStopping) started.kill('SIGKILL')
    await this.#status(pods, host, running())
    const { code, message }: PodEnd = await started.ended
    if (this.#isStopping) return
    await this.#status(pods, host, terminated({ message, exitCode: code, reason: undefined }))
    const status = code === 0 ? complete(startTime) : failed(undefined, undefined, startTime)
    await this.#status(jobs, { namespace, name }, { active: 0, ...status })
  }

  async #make({ metadata, spec: { template } }: Job, name: string): Promise<void> {
    const { namespace, uid } = metadata
    const owner = { apiVersion: 'batch/v1', kind: 'Job', name: metadata.name, uid, controller: true }
    await this.#options.api.create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...template.metadata, namespace, name, ownerReferences: [owner] },
      spec: template.spec,
    })
  }

  /** Ignores an object that no longer exists. */
  async #status(type: ResourceType, ref: { namespace: string; name: string }, status: object): Promise<void> {
    try {
      await this.#options.api.patch(type, ref, { status }, { subresource: 'status' })
    } catch (error) {
      if (!isApiError(error, 'NotFound')) throw error
    }
  }

  async #remove(type: ResourceType, { metadata: { namespace, name, uid } }: z.infer<typeof owned>) {
    try {
      await this.#options.api.delete(type, { namespace, name }, { uid }, { dependents: 'Background' })
    } catch (error) {
      if (!isApiError(error, 'NotFound') && !isApiError(error, 'Conflict')) throw error
    }
  }

  async #list(type: ResourceType): Promise<unknown[]> {
    return (await this.#options.api.list(type, { labelSelector: bakeSelector() })).items
  }

  #note(text: string): void {
    writeSync(this.#log, text)
  }
}

/** Cleans up after a deleted Job. */
function leave(entry: Running): void {
  const { pod } = entry
  if (pod === undefined || entry.isLeaving) return
  entry.isLeaving = true
  pod.kill('SIGTERM')
  setTimeout(() => pod.kill('SIGKILL'), GRACE_MS).unref()
}

function isOver({ status }: Job): boolean {
  return status?.conditions.some(({ type }) => type === 'Complete' || type === 'Failed') === true
}
