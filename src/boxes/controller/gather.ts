/** The Jobs and pods of a template, read live. */

import type { BoxTemplate } from '../../apis/box-template.ts'
import { events, jobs, pods } from '../../apis/core-kinds.ts'
import type { ResourceType } from '../../apis/meta.ts'
import type { ListQuery, RawObject, ResourceReader } from '../../kube/client.ts'
import { sanitizeText } from '../../lib/plain-text.ts'
import { activeSeconds, bakeSelector } from './bake-job.ts'
import { type BakeJob, type BakePod, bakeJob, bakePod, type ClusterEvent, clusterEvent } from './bake-run.ts'
import { bakeProgress, isWaiting } from './outcome.ts'
import type { JobFacts } from './plan.ts'
import type { TemplateContext } from './template-context.ts'

/** Jobs of a template that are kept at a time are few; more than this are not looked at. */
const MAX_PAGES = 10
const MAX_WORDS = 1000
/** A kubelet repeats what goes on being wrong within five minutes; what it does not repeat has passed. */
const RECENT_MS = 360_000

export type BakeRuns = { jobs: JobFacts[]; leavingPods: string[] }

/** Without an image nothing is baked, nor looked for: what is under way ends by itself. @throws ApiError */
export async function listBakeRuns(
  { resources, settings, clock }: Pick<TemplateContext, 'resources' | 'settings' | 'clock'>,
  { metadata, status }: BoxTemplate,
): Promise<BakeRuns> {
  if (settings.image === undefined) return { jobs: [], leavingPods: [] }
  const now = clock.now()
  const activeMs = activeSeconds(settings) * 1000
  const { namespace = '', name, uid } = metadata
  const query = { namespace, labelSelector: bakeSelector(name) }
  // The Jobs first: of one that has ended the pod has then ended as well, and says how.
  const held = (await listAll(resources, jobs, query)).map((raw) => bakeJob.parse(raw))
  const found = (await listAll(resources, pods, query)).map((raw) => bakePod.parse(raw))
  const services = status?.bake?.services?.map((service) => service.name) ?? []
  const facts = await Promise.all(
    held.map(async (job): Promise<JobFacts> => {
      const pod = podOf(job, found)
      const complaints = isOver(job) ? [] : await complaintsOf(resources, { job, pod }, now)
      return {
        name: job.metadata.name,
        isOwn: isOwnedBy(job, uid),
        isLeaving: job.metadata.deletionTimestamp !== undefined,
        progress: bakeProgress(
          { job, pod, complaints, services, activeMs, startedAt: startOf(job, status) },
          now,
        ),
      }
    }),
  )
  const running = held.filter((job) => !isOver(job))
  const leavingPods = found
    .filter((pod) => isAlive(pod) && !running.some((job) => isOwnedBy(pod, job.metadata.uid)))
    .map((pod) => pod.metadata.name)
  return { jobs: facts, leavingPods }
}

/** Of the bake that the Job is of, by the clock that wrote the status. */
function startOf({ metadata }: BakeJob, status: BoxTemplate['status']): number | undefined {
  const { job, startedAt } = status?.bake ?? {}
  return job === metadata.name ? Date.parse(startedAt ?? '') || undefined : undefined
}

/** The newest: a Job of ours makes one. */
function podOf(job: BakeJob, all: readonly BakePod[]): BakePod | undefined {
  const created = ({ metadata }: BakePod) => Date.parse(metadata.creationTimestamp ?? '') || 0
  return all
    .filter((pod) => isOwnedBy(pod, job.metadata.uid))
    .sort((a, b) => created(a) - created(b))
    .at(-1)
}

export function isOwnedBy({ metadata }: BakeJob | BakePod, uid: string): boolean {
  return metadata.ownerReferences?.some((owner) => owner.uid === uid) ?? false
}

function isOver({ status }: BakeJob): boolean {
  return status.conditions.some(
    ({ type, status: is }) => (type === 'Complete' || type === 'Failed') && is === 'True',
  )
}

function isAlive({ status }: BakePod): boolean {
  return status.phase !== 'Succeeded' && status.phase !== 'Failed'
}

/** Why no pod was made, or why it does not start: Events are the only place that says so. */
async function complaintsOf(
  resources: ResourceReader,
  { job, pod }: { job: BakeJob; pod: BakePod | undefined },
  now: number,
): Promise<string[]> {
  if (pod && !isWaiting(pod)) return []
  const { metadata } = pod ?? job
  const fieldSelector = `involvedObject.uid=${metadata.uid},type=Warning`
  const query = { namespace: metadata.namespace ?? '', fieldSelector }
  const found = (await listAll(resources, events, query)).map((raw) => clusterEvent.parse(raw))
  return found
    .filter(({ reason }) => (pod ? reason !== 'FailedScheduling' : reason === 'FailedCreate'))
    .filter((event) => !pod || lastSeen(event) > now - RECENT_MS)
    .sort((a, b) => lastSeen(a) - lastSeen(b))
    .map(({ message }) => sanitizeText(message, MAX_WORDS))
}

/** Older clients count in the Event, newer ones begin a series. */
function lastSeen({ metadata, lastTimestamp, eventTime, series }: ClusterEvent): number {
  const times = [metadata.creationTimestamp, lastTimestamp, eventTime, series?.lastObservedTime]
  return Math.max(...times.map((time) => Date.parse(time ?? '') || 0))
}

async function listAll(
  resources: ResourceReader,
  type: ResourceType,
  query: ListQuery,
): Promise<RawObject[]> {
  const items: RawObject[] = []
  let from: string | undefined
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await resources.list(type, query, from)
    items.push(...page.items)
    from = page.continue
    if (from === undefined) break
  }
  return items
}
