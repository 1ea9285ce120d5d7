import { z } from 'zod'
import { managedBy } from '../apis/annotations.ts'
import { API_VERSION, type Condition } from '../apis/meta.ts'
import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  type SecretsSettingsSpec,
  secretsSettingsKind,
  secretsSettingsResource,
  secretsSettingsSpec,
} from '../apis/secrets-settings.ts'
import type { AccountIdentity } from '../credentials/accounts/identity.ts'
import { organizationPath } from '../credentials/aws/names.ts'
import { ApiError, isApiError, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Organization } from '../kube/organizations.ts'
import type { Clock } from '../lib/clock.ts'
import { sleep } from '../lib/sleep.ts'
import { etagOf, ifMatchHolds } from '../lib/text.ts'
import type { Conditional } from './endpoint-resource.ts'
import { clusterRefusal, RefusedError, withRefusals } from './http/problems.ts'
import { MANAGE_SETTINGS, type Route, route } from './http/route.ts'
import { retryOnConflict } from './object-writes.ts'
import { time } from './schemas.ts'
import { isObserved, NOT_TRIED, parseSettings, readRawSettings, readSettings } from './secret-store.ts'

/** What REST does to the secrets settings of an organization: the cloud account that keeps its secrets (interface §2.6, §4.1). */

type ConditionSummary = Pick<Condition, 'type' | 'status' | 'reason' | 'message' | 'lastTransitionTime'>

/** The settings as their owner sees them. Before anybody has made any, what Davit has decided is there already. */
type SettingsResource = {
  region?: string
  roleArn?: string
  kmsKeyId?: string
  /** What the role's trust policy has to ask for. */
  externalId: string
  account?: string
  /** Every parameter of the organization is under it. */
  parameterPrefix: string
  /** Policies to paste, as JSON. */
  trustPolicy?: string
  writerPolicy?: string
  readerPolicy?: string
  /** When the account was tried last. */
  checkedAt?: string
  /** Of these settings, not of those before; none while there are no settings. */
  conditions: ConditionSummary[]
}

/** All of the settings: what is absent is taken away. */
export type SettingsDraft = {
  region: string
  roleArn?: string | undefined
  kmsKeyId?: string | undefined
}

/** `etag` with its quotes; absent while there are no settings. */
type TaggedSettings = { settings: SettingsResource; etag?: string }

/** All @throws RefusedError */
export interface OrganizationSettings {
  get(organization: string): Promise<TaggedSettings>
  /**
   * Answers when the account has been tried with them, or after ten seconds with what is known by then.
   * Refuses: invalid, managed_elsewhere, precondition_failed
   */
  put(organization: string, draft: SettingsDraft, how: Conditional): Promise<TaggedSettings>
}

type SettingsOwner = { organization: string; uid: string; identity: AccountIdentity }

/** Settings as their owner sees them over REST. @param settings absent: there are none */
function taggedOf(whose: SettingsOwner, settings: SecretsSettings | undefined): TaggedSettings {
  const { organization, uid, identity } = whose
  const own = {
    externalId: identity.externalIdOf(uid),
    parameterPrefix: organizationPath({ prefix: identity.prefix, organization }),
  }
  if (!settings) return { settings: { ...own, conditions: [] } }
  const { region, roleArn, kmsKeyId } = settings.spec
  const shown: SettingsResource = {
    region,
    ...defined({ roleArn, kmsKeyId }),
    ...own,
    ...statusOf(settings),
    conditions: conditionsOf(settings),
  }
  return { settings: shown, etag: etagOf(settings.metadata) }
}

function statusOf(settings: SecretsSettings): Partial<SettingsResource> {
  const { status } = settings
  if (!status || !isObserved(settings)) return {}
  const { account, trustPolicy, writerPolicy, readerPolicy, checkedAt } = status
  return defined({
    account,
    trustPolicy,
    writerPolicy,
    readerPolicy,
    checkedAt: checkedAt === undefined ? undefined : new Date(checkedAt).toISOString(),
  })
}

/** What was found out with other settings says nothing of these. */
function conditionsOf(settings: SecretsSettings): ConditionSummary[] {
  if (!isObserved(settings)) {
    const { creationTimestamp = '' } = settings.metadata
    return [{ ...NOT_TRIED, lastTransitionTime: new Date(creationTimestamp || 0).toISOString() }]
  }
  return (settings.status?.conditions ?? []).map(({ type, status, reason, message, lastTransitionTime }) => ({
    type,
    status,
    reason,
    message,
    lastTransitionTime,
  }))
}

function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never
}

/** Secrets settings over REST: the resource `default` that kubectl and Git see as well. */

export type SecretsSettingsServiceOptions = {
  resources: ResourceReader & ResourceWriter
  organizations: { get(name: string): Organization | undefined }
  identity: AccountIdentity
  clock: Clock
}

/** So long the controller may take to try the account (settled, "REST shapes"). */
const TRIED_WITHIN_MS = 10_000
const FIRST_LOOK_MS = 100
const LONGEST_LOOK_MS = 1000
const RETRY_AFTER_SECONDS = 5

export class SecretsSettingsService implements OrganizationSettings {
  readonly #options: SecretsSettingsServiceOptions

  constructor(options: SecretsSettingsServiceOptions) {
    this.#options = options
  }

  get(organization: string): Promise<TaggedSettings> {
    return withRefusals(async () => {
      const whose = this.#whose(organization)
      return taggedOf(whose, await readSettings(this.#options.resources, organization))
    })
  }

  put(organization: string, draft: SettingsDraft, how: Conditional): Promise<TaggedSettings> {
    return withRefusals(async () => {
      const whose = this.#whose(organization)
      const until = this.#options.clock.monotonic() + TRIED_WITHIN_MS
      await this.#untilGone(organization, until)
      const written = await retryOnConflict(() => this.#write(organization, draft, how))
      return taggedOf(whose, await this.#whenTried(organization, written, until))
    })
  }

  #whose(organization: string): SettingsOwner {
    const { organizations, identity } = this.#options
    const { uid } = organizations.get(organization) ?? {}
    if (uid === undefined) throw new RefusedError('not_found')
    return { organization, uid, identity }
  }

  /** Those that are being deleted have to go before there can be new ones. */
  async #untilGone(organization: string, until: number): Promise<void> {
    const { resources } = this.#options
    const isGoing = async () =>
      (await readRawSettings(resources, organization))?.metadata.deletionTimestamp !== undefined
    if (await this.#poll(until, async () => ((await isGoing()) ? undefined : true))) return
    const detail = 'The settings before are still being deleted; nothing was changed.'
    throw new RefusedError('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS })
  }

  async #write(
    organization: string,
    draft: SettingsDraft,
    { ifMatch }: Conditional,
  ): Promise<SecretsSettings> {
    const { resources } = this.#options
    const raw = await readRawSettings(resources, organization)
    if (raw?.metadata.deletionTimestamp !== undefined)
      throw new ApiError('Conflict', 'the settings are being deleted')
    // A precondition on what is not there does not hold.
    if (!raw && ifMatch !== undefined) throw new RefusedError('precondition_failed')
    if (!raw) return await this.#create(organization, draft)
    const { uid, resourceVersion, generation } = raw.metadata
    const etag = etagOf({ uid: uid ?? '', generation: Number(generation ?? 0) })
    if (!ifMatchHolds(ifMatch, etag)) throw new RefusedError('precondition_failed')
    const changes = changesOf((raw.spec ?? {}) as Partial<SecretsSettingsSpec>, draft)
    if (Object.keys(changes).length === 0) return parseSettings(raw)
    refuseManaged(managedBy(raw.metadata), Object.keys(changes))
    const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
    const patch = { metadata: { uid, resourceVersion }, spec: changes }
    try {
      return parseSettings(await resources.patch(secretsSettingsResource, ref, patch))
    } catch (error) {
      throw clusterRefusal(error)
    }
  }

  async #create(organization: string, draft: SettingsDraft): Promise<SecretsSettings> {
    const metadata = { namespace: organization, name: SECRETS_SETTINGS_NAME }
    const spec = changesOf({}, draft)
    const object = { apiVersion: API_VERSION, kind: secretsSettingsKind.kind, metadata, spec }
    const { resources } = this.#options
    try {
      return parseSettings(await resources.create(secretsSettingsResource, object))
    } catch (error) {
      // The namespace went meanwhile.
      throw isApiError(error, 'NotFound') ? new RefusedError('not_found') : clusterRefusal(error)
    }
  }

  /** The settings once the controller has said something of them, or when time is up. */
  async #whenTried(organization: string, written: SecretsSettings, until: number): Promise<SecretsSettings> {
    let last = written
    await this.#poll(until, async () => {
      const now = await readSettings(this.#options.resources, organization)
      // Somebody has deleted them since.
      if (now?.metadata.uid !== written.metadata.uid) return true
      last = now
      return isTried(now) ? true : undefined
    })
    return last
  }

  /** What `look` gives, as soon as it gives something; undefined when time is up. */
  async #poll<T>(until: number, look: () => Promise<T | undefined>): Promise<T | undefined> {
    const { clock } = this.#options
    for (let wait = FIRST_LOOK_MS; ; wait = Math.min(2 * wait, LONGEST_LOOK_MS)) {
      const seen = await look()
      const left = until - clock.monotonic()
      if (seen !== undefined || left <= 0) return seen
      await sleep(clock, Math.min(wait, left))
    }
  }
}

/** Reconciling is true for as long as the controller is at it. */
function isTried(settings: SecretsSettings): boolean {
  const reconciling = settings.status?.conditions?.find(({ type }) => type === 'Reconciling')
  return isObserved(settings) && reconciling?.status === 'False'
}

const FIELDS = ['region', 'roleArn', 'kmsKeyId'] as const

/** What is absent in the draft is taken away. */
function changesOf(spec: Partial<SecretsSettingsSpec>, draft: SettingsDraft): Record<string, string | null> {
  const changes = FIELDS.filter((field) => draft[field] !== spec[field])
  return Object.fromEntries(changes.map((field) => [field, draft[field] ?? null]))
}

function refuseManaged(manager: string | undefined, fields: readonly string[]): void {
  if (manager === undefined) return
  const detail = `The spec is managed by ${manager}: change ${fields.join(', ')} there.`
  throw new RefusedError('managed_elsewhere', { detail })
}

/** Secrets settings as REST shows and takes them (interface §2.6). */

const spec = secretsSettingsSpec.shape
const { region, roleArn, kmsKeyId } = spec

const settingsDraftSchema = z
  .strictObject({
    region: region.meta({ example: 'eu-west-1' }),
    roleArn: roleArn,
    kmsKeyId: kmsKeyId,
  })
  .superRefine((draft, context) => {
    // What must fit together.
    for (const { path, message } of secretsSettingsSpec.safeParse(draft).error?.issues ?? [])
      context.addIssue({ code: 'custom', path, message })
  })

const condition = z.object({
  type: z.string().meta({ description: 'Such as Ready, Reachable, WriteOnly, ExternalIdEnforced.' }),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().meta({ description: 'One word for programs.' }),
  message: z.string().meta({ description: 'Why, and what to do, for people.' }),
  lastTransitionTime: time('When the status last changed.'),
})

const policy = (what: string) =>
  z
    .string()
    .optional()
    .meta({ description: `${what}, as JSON to paste.` })

const settings = z
  .object({
    region: z.string().optional().meta({ description: 'Absent while there are no settings.' }),
    roleArn: z.string().optional(),
    kmsKeyId: z.string().optional(),
    externalId: z.string().meta({
      description:
        'Made by Davit, the same for as long as the organization exists. The trust policy of the role must ask for it.',
    }),
    account: z.string().optional().meta({ description: 'AWS account of the role.' }),
    parameterPrefix: z.string().meta({ description: 'Every parameter of the organization is under it.' }),
    trustPolicy: policy('Trust policy of the role'),
    writerPolicy: policy('Permissions of the role, which may write and not read'),
    readerPolicy: policy('Permissions of the role of the boxes, which may read and not write'),
    checkedAt: time('When the account was tried last.').optional(),
    conditions: z.array(condition).meta({ description: 'Of these settings, not of those before.' }),
  })
  .meta({
    id: 'SecretsSettings',
    description: 'The cloud account in which an organization keeps its secrets.',
  })

/** Secrets settings (interface §2.6, §4.1). */

const TAG = 'Secrets settings'
const PATH = '/secrets-settings'
const ETAG = { ETag: 'Of the settings as they are now, for If-Match; none while there are no settings.' }

export function settingsRoutes(settings: OrganizationSettings): Route[] {
  return [getRoute(settings), putRoute(settings)]
}

function getRoute(service: OrganizationSettings): Route {
  return route({
    id: 'getSettings',
    method: 'get',
    path: PATH,
    tag: TAG,
    summary: 'Read the secrets settings',
    description:
      'Before there are any, it shows the external id and the prefix alone. Settings with a region and no role have the policies that the role is to be made with.',
    permission: MANAGE_SETTINGS,
    success: { status: 200, description: 'The settings.', body: settings, headers: ETAG },
    problems: ['unreadable'],
    async handle({ organization }) {
      return replyOf(await service.get(organization))
    },
  })
}

function putRoute(service: OrganizationSettings): Route {
  return route({
    id: 'putSettings',
    method: 'put',
    path: PATH,
    tag: TAG,
    summary: 'Connect a cloud account',
    description:
      'Replaces the settings: what is left out is taken away. Davit tries the account, for up to ten seconds of this request, and `conditions` say what came of it. With another account or region, secrets that are stored have to be given again.',
    permission: MANAGE_SETTINGS,
    body: settingsDraftSchema,
    success: {
      status: 200,
      description: 'The settings, connected or not.',
      body: settings,
      headers: ETAG,
    },
    problems: ['managed_elsewhere', 'precondition_failed', 'unreadable'],
    conditional: true,
    async handle({ organization, body, ifMatch }) {
      return replyOf(await service.put(organization, body, { ifMatch }))
    },
  })
}

function replyOf({ settings, etag }: TaggedSettings) {
  return { body: settings, headers: etag === undefined ? {} : { etag } }
}
