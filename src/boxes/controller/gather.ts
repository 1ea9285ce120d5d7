import { readRequest } from '../../apis/annotations.ts'
import {
  type BoxTemplate,
  boxTemplate,
  boxTemplateKind,
  boxTemplates,
  REBAKE_ANNOTATION,
} from '../../apis/box-template.ts'
import {
  configMap,
  configMaps,
  events,
  jobs,
  persistentVolumeClaims,
  pods,
  serviceAccounts,
} from '../../apis/core-kinds.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import { API_VERSION, objectMeta, type ResourceType } from '../../apis/meta.ts'
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
import { type MutationCache, ObjectWriter } from '../../kube/mutation-cache.ts'
import type { Organizations } from '../../kube/organizations.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import type { Clock, Random } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { BakeMetrics } from '../../lib/metrics.ts'
import { sanitizeText } from '../../lib/text.ts'
import {
  activeSeconds,
  type BakeCa,
  type BakeSettings,
  bakeSelector,
  type FoundCa,
  type PreparedService,
  prepareBake,
  ROLE_ARN_ANNOTATION,
} from './bake-job.ts'
import { type BakeLimits, type BakeSlots, exceedsTemplateQuota } from './limits.ts'
import {
  type BakeJob,
  type BakePod,
  bakeJob,
  bakePod,
  bakeProgress,
  type ClusterEvent,
  clusterEvent,
  isWaiting,
} from './outcome.ts'
import type { BakeFacts, JobFacts } from './plan.ts'

/** Writes of the status of BoxTemplates by their controller. One that is gone takes its Jobs with it, since it owns them. */

type TemplateWriter = Pick<ObjectWriter<BoxTemplate>, 'read' | 'updateStatus'>

export function createTemplateWriter(
  resources: ResourceReader & ResourceWriter,
  book: MutationCache<BoxTemplate>,
): TemplateWriter {
  return new ObjectWriter({
    resources,
    type: boxTemplates,
    decode: (raw) => boxTemplate.parse(raw),
    cache: book,
  })
}

export function templateReference({ metadata }: BoxTemplate) {
  return { apiVersion: API_VERSION, kind: boxTemplateKind.kind, metadata }
}

/** What the loop of templates works with. */

export type TemplateContext = {
  resources: ResourceReader & ResourceWriter
  book: MutationCache<BoxTemplate>
  writer: TemplateWriter
  organizations: Organizations
  settings: Omit<BakeSettings, 'image'> & {
    image: string | undefined
    limits: BakeLimits
    /** Of one organization. */
    maxTemplates: number
  }
  slots: BakeSlots
  events: EventRecorder
  metrics: BakeMetrics
  clock: Clock
  random: Random
  log: Logger
}

/** The Jobs and pods of a template, read live. */

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

/** What there is, in an organization, of the authorities that the operator has named to all bakes. */

const CERTIFICATE = '-----BEGIN CERTIFICATE-----'

/** @throws ApiError */
export async function findCa(resources: ResourceReader, namespace: string, ca: BakeCa): Promise<FoundCa> {
  try {
    const found = configMap.parse(await resources.get(configMaps, { namespace, name: ca.configMap }))
    const isThere = found.data?.[ca.key]?.includes(CERTIFICATE)
    return { ...ca, found: isThere ? 'certificates' : 'no certificates' }
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { ...ca, found: 'nothing' }
    // The right to read it is for one name, which need not be this one.
    if (isApiError(error, 'Forbidden')) return { ...ca, found: 'refused' }
    throw error
  }
}

/** Everything that the next step of a bake is decided on, read live. */

export type GatheredBake = {
  facts: BakeFacts
  /** None where there is a problem. */
  services: PreparedService[]
  /** The role of the ServiceAccount (IRSA). */
  roleArn: string | undefined
  /** Those that the template names, and what is there of them. */
  names: readonly string[]
  credentials: ReadonlyMap<string, RegistryCredential>
}

/** @throws ApiError */
export async function gatherBake(context: TemplateContext, template: BoxTemplate): Promise<GatheredBake> {
  const { resources, organizations, settings, clock } = context
  const { metadata, spec, status } = template
  const { namespace = '' } = metadata
  const beyond = exceedsTemplateQuota(context.book, template, settings.maxTemplates)
    ? settings.maxTemplates
    : undefined
  const isOff = settings.image === undefined
  // Without an image there is no pod that would need them, and perhaps no right to look.
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
    beyond,
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
  return { facts, services, roleArn: roleArnOf(account), names, credentials }
}

export function credentialNames({ spec }: BoxTemplate): string[] {
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
  const there = found.flatMap((raw) => (raw ? [registryCredential.parse(raw)] : []))
  return new Map(
    there
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((credential) => [credential.metadata.name, credential]),
  )
}

/** Undefined where nothing is named, or it is not there. @throws ApiError */
async function readIf(
  resources: ResourceReader,
  type: ResourceType,
  { namespace, name }: { namespace: string; name: string | undefined },
): Promise<RawObject | undefined> {
  if (name === undefined) return undefined
  return await findObject(resources, type, { namespace, name })
}

function roleArnOf(account: RawObject | undefined): string | undefined {
  return account && objectMeta.parse(account.metadata).annotations?.[ROLE_ARN_ANNOTATION]
}
