/** Reads everything that the next action for a bake depends on, live: the template's Jobs, their pods and Events, and its references. */
import { readRequest } from '../../apis/annotations.ts'
import type { BakeFailureCode } from '../../apis/bake.ts'
import { type BoxTemplate, REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import {
  configMap,
  configMaps,
  events,
  jobs,
  persistentVolumeClaims,
  pods,
  ROLE_ARN_ANNOTATION,
  serviceAccounts,
} from '../../apis/core-kinds.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import { objectMeta, type ResourceType } from '../../apis/meta.ts'
import {
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import { credentialState } from '../../credentials/controller/conditions.ts'
import {
  findObject,
  isApiError,
  type ListQuery,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import type { MutationCache, ObjectWriter } from '../../kube/mutation-cache.ts'
import type { Organizations } from '../../kube/organizations.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import type { Logger } from '../../lib/log.ts'
import { sanitizeText } from '../../lib/text.ts'
import type { Clock, Random } from '../../lib/time.ts'
import { activeSeconds, type BakeSettings, bakeSelector } from './bake-job.ts'
import {
  type BakeJob,
  type BakePod,
  bakeJob,
  bakePod,
  bakeProgress,
  type ClusterEvent,
  clusterEvent,
  isPodOver,
  isWaiting,
} from './outcome.ts'
import type { BakeFacts, JobFacts } from './plan.ts'
import { type BakeLimits, type BakeSlots, exceedsTemplateQuota } from './quota.ts'
import { type BakeCa, type FoundCa, type PreparedService, prepareBake } from './service-credentials.ts'

export interface BakeMetrics {
  /** A bake ended: `succeeded`, or the code of its failure. @param seconds since its start */
  baked(result: 'succeeded' | BakeFailureCode, seconds: number): void
}

export type TemplateContext = {
  resources: ResourceReader & ResourceWriter
  book: MutationCache<BoxTemplate>
  writer: ObjectWriter<BoxTemplate>
  organizations: Organizations
  settings: Omit<BakeSettings, 'image'> & {
    image: string | undefined
    limits: BakeLimits
    maxTemplates: number
  }
  slots: BakeSlots
  events: EventRecorder
  metrics: BakeMetrics
  clock: Clock
  random: Random
  log: Logger
}

/** A template has few Jobs at a time; pages beyond this are ignored. */
const MAX_PAGES = 10
const MAX_MESSAGE = 1000
/** A kubelet repeats the Event of a lasting problem within five minutes, so an older one is no longer true. */
const RECENT_MS = 360_000
const CERTIFICATE = '-----BEGIN CERTIFICATE-----'

export type GatheredBake = {
  template: BoxTemplate
  facts: BakeFacts
  services: PreparedService[]
  roleArn: string | undefined
  /** Names of all credentials that the template references, and those of them that exist. */
  names: readonly string[]
  credentials: ReadonlyMap<string, RegistryCredential>
}

/** Without a bake image there are no bakes: nothing is read, and a Job in progress ends by itself. @throws ApiError */
export async function listBakeRuns(
  { resources, settings, clock }: Pick<TemplateContext, 'resources' | 'settings' | 'clock'>,
  { metadata, status }: BoxTemplate,
): Promise<Pick<BakeFacts, 'jobs' | 'leavingPods'>> {
  if (settings.image === undefined) return { jobs: [], leavingPods: [] }
  const now = clock.now()
  const activeMs = activeSeconds(settings) * 1000
  const { namespace = '', name, uid } = metadata
  const query = { namespace, labelSelector: bakeSelector(name) }
  // Jobs first: the pod of a Job that has ended is then listed with its result.
  const listedJobs = (await listAll(resources, jobs, query)).map((raw) => bakeJob.parse(raw))
  const listedPods = (await listAll(resources, pods, query)).map((raw) => bakePod.parse(raw))
  const services = status?.bake?.services?.map((service) => service.name) ?? []
  const facts = await Promise.all(
    listedJobs.map(async (job): Promise<JobFacts> => {
      const pod = newestPod(job, listedPods)
      const complaints = isOver(job) ? [] : await readComplaints(resources, job, pod, now)
      const { startedAt } = status?.bake?.job === job.metadata.name ? status.bake : {}
      return {
        name: job.metadata.name,
        isOwn: isOwnedBy(job, uid),
        isLeaving: job.metadata.deletionTimestamp !== undefined,
        progress: bakeProgress(
          { job, pod, complaints, services, activeMs, startedAt: Date.parse(startedAt ?? '') || undefined },
          now,
        ),
      }
    }),
  )
  const running = listedJobs.filter((job) => !isOver(job))
  const leavingPods = listedPods
    .filter((pod) => !isPodOver(pod) && !running.some((job) => isOwnedBy(pod, job.metadata.uid)))
    .map((pod) => pod.metadata.name)
  return { jobs: facts, leavingPods }
}

function newestPod(job: BakeJob, all: readonly BakePod[]): BakePod | undefined {
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

/** Why there is no pod, or why it does not start. Only Events tell. */
async function readComplaints(
  resources: ResourceReader,
  job: BakeJob,
  pod: BakePod | undefined,
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
    .map(({ message }) => sanitizeText(message, MAX_MESSAGE))
}

/** Older clients update the Event itself, newer ones its series. */
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
  let next: string | undefined
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await resources.list(type, query, next)
    items.push(...page.items)
    next = page.continue
    if (next === undefined) break
  }
  return items
}

/** Looks for the certificate authorities that the cluster operator configured for all bakes. @throws ApiError */
export async function findCa(resources: ResourceReader, namespace: string, ca: BakeCa): Promise<FoundCa> {
  try {
    const found = configMap.parse(await resources.get(configMaps, { namespace, name: ca.configMap }))
    return { ...ca, found: found.data?.[ca.key]?.includes(CERTIFICATE) ? 'certificates' : 'no certificates' }
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { ...ca, found: 'nothing' }
    // RBAC allows one ConfigMap name, which may differ from this one.
    if (isApiError(error, 'Forbidden')) return { ...ca, found: 'refused' }
    throw error
  }
}

/** @throws ApiError */
export async function gatherBake(context: TemplateContext, template: BoxTemplate): Promise<GatheredBake> {
  const { resources, organizations, settings, clock } = context
  const { metadata, spec, status } = template
  const { namespace = '' } = metadata
  const isOverQuota = exceedsTemplateQuota(context.book, template, settings.maxTemplates)
  const isOff = settings.image === undefined
  // Without an image no pod needs them, and Davit may lack the right to read them.
  const { instanceRole, output } = isOff ? {} : spec
  const now = clock.now()
  const names = credentialNames(template)
  const [credentials, account, claim, ca, runs] = await Promise.all([
    readCredentials(resources, namespace, names),
    readIf(resources, serviceAccounts, { namespace, name: instanceRole?.serviceAccountName }),
    readIf(resources, persistentVolumeClaims, { namespace, name: output?.persistentVolumeClaim }),
    isOff ? undefined : settings.ca && findCa(resources, namespace, settings.ca),
    listBakeRuns(context, template),
  ])
  const { services = [], problem } = prepareBake({
    isOrganization: organizations.get(namespace) !== undefined,
    exceededQuota: isOverQuota ? settings.maxTemplates : undefined,
    bakeImage: settings.image,
    spec,
    credentials,
    missing: {
      serviceAccount: instanceRole !== undefined && !account,
      output: output !== undefined && !claim,
    },
    ca,
  })
  const bake = status?.bake
  const createdAt = Date.parse(metadata.creationTimestamp ?? '') || 0
  const facts = {
    now,
    generation: metadata.generation ?? 1,
    request: readRequest(metadata.annotations?.[REBAKE_ANNOTATION], bake?.observedRebake, createdAt),
    credentialState: credentialState(names, credentials),
    problem,
    isOff,
    bake,
    ...runs,
  }
  const roleArn = account && objectMeta.parse(account.metadata).annotations?.[ROLE_ARN_ANNOTATION]
  return { template, facts, services, roleArn, names, credentials }
}

function credentialNames({ spec }: BoxTemplate): string[] {
  const ids = spec.services.flatMap(({ registryCredentialId }) => registryCredentialId ?? [])
  return [...new Set(ids)].map((id) => id.slice(CREDENTIAL_PREFIX.length))
}

async function readCredentials(
  resources: ResourceReader,
  namespace: string,
  names: readonly string[],
): Promise<Map<string, RegistryCredential>> {
  const found = await Promise.all(
    names.map((name) => readIf(resources, registryCredentials, { namespace, name })),
  )
  return new Map(
    found
      .flatMap((raw) => (raw ? [registryCredential.parse(raw)] : []))
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((credential) => [credential.metadata.name, credential]),
  )
}

async function readIf(
  resources: ResourceReader,
  type: ResourceType,
  { namespace, name }: { namespace: string; name: string | undefined },
): Promise<RawObject | undefined> {
  return name === undefined ? undefined : await findObject(resources, type, { namespace, name })
}
