/**
 * Replaces what a control plane without nodes lacks for a bake: the Job controller, the kubelet and the garbage collector. A test
 * decides the result of a Job's pod.
 */

import { complete, failed, running, terminated } from '../../playground/bakes/run-statuses.ts'
import type { BakeResult } from '../../src/apis/bake.ts'
import { type BoxTemplate, boxTemplate, boxTemplates, TEMPLATE_LABEL } from '../../src/apis/box-template.ts'
import {
  configMap,
  configMaps,
  events,
  jobs,
  persistentVolumeClaims,
  pods,
  serviceAccounts,
} from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import type { RawObject } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { until } from './until.ts'

export const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`
export const BAKE_ENV = {
  DAVIT_BAKE_IMAGE: 'registry.example.com/davit:1',
  DAVIT_BAKE_REALMS: 'auth.example.com',
  // Some bakes of a test file never end.
  DAVIT_MAX_BAKES_PER_ORGANIZATION: '50',
}

type Owned = RawObject & {
  metadata: { ownerReferences?: { uid: string }[]; labels?: Record<string, string> }
}
type JobObject = Owned & {
  spec: { template: { spec: object; metadata: object } }
  status?: { conditions?: { type: string }[] }
}

export class JobStandIn {
  readonly organization: string
  readonly #api: KubernetesClient
  #pods = 0
  #woken = 0

  constructor(api: KubernetesClient, organization: string) {
    this.#api = api
    this.organization = organization
  }

  async make(name: string, spec: Record<string, unknown>): Promise<void> {
    await this.#api.create(boxTemplates, {
      apiVersion: API_VERSION,
      kind: 'BoxTemplate',
      metadata: { namespace: this.organization, name },
      spec,
    })
  }

  async change(name: string, patch: object): Promise<void> {
    await this.#api.patch(boxTemplates, { namespace: this.organization, name }, patch)
  }

  /** Triggers a reconciliation: a change without an event is noticed only at the controller's next resync, a minute later. */
  async wake(name: string): Promise<void> {
    this.#woken += 1
    await this.change(name, { metadata: { labels: { woken: String(this.#woken) } } })
  }

  async remove(name: string): Promise<void> {
    await this.#api.delete(boxTemplates, { namespace: this.organization, name })
  }

  async account(name: string, annotations: Record<string, string> = {}): Promise<void> {
    const metadata = { namespace: this.organization, name, annotations }
    await this.#api.create(serviceAccounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata })
  }

  async claim(name: string): Promise<void> {
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }
    const metadata = { namespace: this.organization, name }
    await this.#api.create(persistentVolumeClaims, {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata,
      spec,
    })
  }

  async configMap(name: string, data: Record<string, string>): Promise<void> {
    const metadata = { namespace: this.organization, name }
    await this.#api.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data })
  }

  async configMapData(name: string): Promise<Record<string, string>> {
    const found = await this.#api.get(configMaps, { namespace: this.organization, name })
    return configMap.parse(found).data ?? {}
  }

  async templateWhen(name: string, is: (template: BoxTemplate) => boolean): Promise<BoxTemplate> {
    const ref = { namespace: this.organization, name }
    let last: unknown
    return await until(
      async () => {
        const template = boxTemplate.parse(await this.#api.get(boxTemplates, ref))
        last = template.status
        return is(template) ? template : undefined
      },
      () => `status of ${name}: ${JSON.stringify(last)}`,
    )
  }

  /** Jobs of a template, active or not. */
  async jobs(template: string): Promise<JobObject[]> {
    const query = { namespace: this.organization, labelSelector: `${TEMPLATE_LABEL}=${template}` }
    return (await this.#api.list(jobs, query)).items as JobObject[]
  }

  /** Names of the pods of a template. */
  async pods(template: string): Promise<string[]> {
    const query = { namespace: this.organization, labelSelector: `${TEMPLATE_LABEL}=${template}` }
    return (await this.#api.list(pods, query)).items.map(({ metadata }) => metadata.name)
  }

  async withoutJobs(template: string): Promise<void> {
    await until(
      async () => (await this.jobs(template)).length === 0 || undefined,
      () => `there is still a Job of ${template}`,
    )
  }

  /** The active Job; waits until there is one. */
  async job(template: string): Promise<JobObject> {
    return await until(
      async () => (await this.jobs(template)).find((job) => !isOver(job)),
      () => `no Job of ${template}`,
    )
  }

  /** Creates the pod with this status, like the Job controller. */
  async pod(job: JobObject, status: object): Promise<string> {
    this.#pods += 1
    const { name, uid } = job.metadata
    const pod = `${name}-${this.#pods}`
    const owner = { apiVersion: 'batch/v1', kind: 'Job', name, uid, controller: true }
    const { spec, metadata } = job.spec.template
    await this.#api.create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...metadata, namespace: this.organization, name: pod, ownerReferences: [owner] },
      spec,
    })
    await this.podStatus(pod, status)
    return pod
  }

  async podStatus(name: string, status: object): Promise<void> {
    await this.#api.patch(pods, { namespace: this.organization, name }, { status }, { subresource: 'status' })
  }

  async run(job: JobObject): Promise<string> {
    return await this.pod(job, running())
  }

  async jobStatus(job: JobObject, status: object): Promise<void> {
    const ref = { namespace: this.organization, name: job.metadata.name }
    await this.#api.patch(jobs, ref, { status }, { subresource: 'status' })
  }

  /** Runs the pod to this end. */
  async end(
    job: JobObject,
    how: { message?: string; exitCode?: number; reason?: string; pod?: string } = {},
  ): Promise<void> {
    const { message = '', exitCode = 0, reason } = how
    const pod = how.pod ?? (await this.run(job))
    await this.podStatus(pod, terminated({ message, exitCode, reason }))
    await this.jobStatus(job, exitCode === 0 ? complete() : failed())
  }

  /** Ends it with a result that has a digest for every service of the template. */
  async succeed(template: string, pod?: string): Promise<void> {
    const job = await this.job(template)
    const services = orderOf(job).services.map(({ name, credential }) => ({
      name,
      digest: DIGEST,
      ...(credential ? { verified: { at: new Date().toISOString(), ok: true } } : {}),
    }))
    const message = JSON.stringify({ version: 1, state: 'succeeded', services } satisfies BakeResult)
    await this.end(job, { message, ...(pod === undefined ? {} : { pod }) })
  }

  async fail(
    template: string,
    failure: NonNullable<BakeResult['failure']>,
    ofCredential = true,
  ): Promise<void> {
    const { service: name = '', code } = failure
    const verified = { at: new Date().toISOString(), ok: false, code }
    const services = ofCredential ? [{ name, verified }] : []
    const message = JSON.stringify({ version: 1, state: 'failed', services, failure } satisfies BakeResult)
    await this.end(await this.job(template), { message, exitCode: 1 })
  }

  /** Records the Job controller's Event for a pod that it could not create. */
  async refusePod({ metadata: { name, uid } }: JobObject, message: string): Promise<void> {
    await this.#complain({ apiVersion: 'batch/v1', kind: 'Job', name, uid }, 'FailedCreate', { message })
  }

  /**
   * Records the kubelet's Event for a pod that cannot start. @param until time of its last occurrence; milliseconds since 1970
   */
  async failMount(name: string, message: string, until: number): Promise<void> {
    const { metadata } = await this.#api.get(pods, { namespace: this.organization, name })
    await this.#complain({ apiVersion: 'v1', kind: 'Pod', name, uid: metadata.uid }, 'FailedMount', {
      message,
      lastTimestamp: new Date(until).toISOString().replace(/\.\d+/, ''),
    })
  }

  async #complain(
    about: { name: string } & Record<string, unknown>,
    reason: string,
    details: { message: string; lastTimestamp?: string },
  ): Promise<void> {
    const namespace = this.organization
    const metadata = { namespace, name: `${about.name}.${reason.toLowerCase()}` }
    const event = { reason, ...details, type: 'Warning', involvedObject: { ...about, namespace } }
    await this.#api.create(events, { apiVersion: 'v1', kind: 'Event', metadata, ...event })
  }

  /** Deletes pods whose Job is gone. */
  async collect(): Promise<void> {
    const query = { namespace: this.organization }
    const held = new Set((await this.#api.list(jobs, query)).items.map(({ metadata }) => metadata.uid))
    for (const pod of (await this.#api.list(pods, query)).items as Owned[]) {
      if (pod.metadata.ownerReferences?.some(({ uid }) => held.has(uid))) continue
      await this.#api.delete(pods, { namespace: this.organization, name: pod.metadata.name })
    }
  }
}

type Order = { services: { name: string; image: string; credential?: { id: string } }[] }

export function orderOf(job: JobObject): Order {
  const [container] = (job.spec.template.spec as { containers: { env: { name: string; value: string }[] }[] })
    .containers
  return JSON.parse(container?.env.find(({ name }) => name === 'DAVIT_BAKE_ORDER')?.value ?? '') as Order
}

function isOver({ status }: JobObject): boolean {
  return status?.conditions?.some(({ type }) => type === 'Complete' || type === 'Failed') ?? false
}
