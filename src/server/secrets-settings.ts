import { z } from 'zod'
import { managedBy } from '../apis/annotations.ts'
import { API_VERSION } from '../apis/meta.ts'
import {
  type SecretsSettings,
  type SecretsSettingsSpec,
  secretsSettingsResource,
  secretsSettingsSpec,
} from '../apis/secrets-settings.ts'
import type { AccountIdentity } from '../credentials/accounts/identity.ts'
import { organizationPath } from '../credentials/aws/names.ts'
import { ApiError, findObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Organizations } from '../kube/organizations.ts'
import { etagOf } from '../lib/text.ts'
import { type Clock, sleep } from '../lib/time.ts'
import { Problem, rejectedByCluster } from './http/problems.ts'
import { MANAGE_SETTINGS, type Route, route } from './http/route.ts'
import { time } from './lists.ts'
import {
  type Conditional,
  checkIfMatch,
  managedProblem,
  notFoundOr,
  parseStored,
  retryOnConflict,
} from './objects.ts'
import { isObserved, NOT_TRIED, readSettings, SETTINGS, settingsRef } from './secret-store.ts'

/**
 * Secrets settings over REST: the cloud account that keeps an organization's secrets (interface §2.6, §4.1). It is the
 * resource `default` that kubectl and Git see as well.
 */

const spec = secretsSettingsSpec.shape
const { region, roleArn, kmsKeyId } = spec

const settingsDraftSchema = z
  .strictObject({
    region: region.meta({ example: 'eu-west-1' }),
    roleArn: roleArn,
    kmsKeyId: kmsKeyId,
  })
  .superRefine((draft, context) => {
    // The rules across fields.
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

/** Absent fields are removed. */
export type SettingsDraft = z.output<typeof settingsDraftSchema>

/** Before there are settings, it has what Davit itself has decided. */
type SettingsResource = z.output<typeof settings>

/** `etag` with its quotes; absent while there are no settings. */
type TaggedSettings = { settings: SettingsResource; etag?: string }

type Options = {
  resources: ResourceReader & ResourceWriter
  organizations: Pick<Organizations, 'get'>
  identity: AccountIdentity
  clock: Clock
}

/** How long the controller may take to try the account (interface S2). */
const TRIED_WITHIN_MS = 10_000
const FIRST_LOOK_MS = 100
const LONGEST_LOOK_MS = 1000
const RETRY_AFTER_SECONDS = 5

/** All methods @throws Problem, and errors that `problemOf` turns into one. */
export class SecretsSettingsService {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  async get(organization: string): Promise<TaggedSettings> {
    const own = this.#decided(organization)
    return taggedOf(own, await readSettings(this.#options.resources, organization))
  }

  /**
   * Returns when the account has been tried, or after ten seconds with what is known by then.
   * Problems: invalid, managed_elsewhere, precondition_failed
   */
  async put(organization: string, draft: SettingsDraft, how: Conditional): Promise<TaggedSettings> {
    const own = this.#decided(organization)
    const until = this.#options.clock.monotonic() + TRIED_WITHIN_MS
    await this.#untilGone(organization, until)
    const written = await retryOnConflict(() => this.#write(organization, draft, how))
    return taggedOf(own, await this.#whenTried(organization, written, until))
  }

  /** What does not depend on the settings. @throws Problem not_found */
  #decided(organization: string): Pick<SettingsResource, 'externalId' | 'parameterPrefix'> {
    const { organizations, identity } = this.#options
    const { uid } = organizations.get(organization) ?? {}
    if (uid === undefined) throw new Problem('not_found')
    const parameterPrefix = organizationPath({ prefix: identity.prefix, organization })
    return { externalId: identity.externalIdOf(uid), parameterPrefix }
  }

  /** Settings that are being deleted have to go before there can be new ones. */
  async #untilGone(organization: string, until: number): Promise<void> {
    const isGone = await this.#poll(until, async () => {
      const raw = await this.#find(organization)
      return raw?.metadata.deletionTimestamp === undefined ? true : undefined
    })
    if (isGone) return
    const detail = 'The settings before are still being deleted; nothing was changed.'
    throw new Problem('overloaded', { detail, retryAfter: RETRY_AFTER_SECONDS })
  }

  #find(organization: string) {
    return findObject(this.#options.resources, secretsSettingsResource, settingsRef(organization))
  }

  async #write(organization: string, draft: SettingsDraft, how: Conditional): Promise<SecretsSettings> {
    const { resources } = this.#options
    const raw = await this.#find(organization)
    if (raw?.metadata.deletionTimestamp !== undefined)
      throw new ApiError('Conflict', 'the settings are being deleted')
    const ref = settingsRef(organization)
    if (!raw) {
      // A precondition on settings that do not exist fails.
      if (how.ifMatch !== undefined) throw new Problem('precondition_failed')
      const spec = changesOf({}, draft)
      const object = { apiVersion: API_VERSION, kind: SETTINGS.kind, metadata: ref, spec }
      try {
        return parseStored(SETTINGS, await resources.create(secretsSettingsResource, object))
      } catch (error) {
        // Not found: the namespace is gone.
        throw rejectedByCluster(notFoundOr(error))
      }
    }
    const { uid = '', resourceVersion, generation } = raw.metadata
    checkIfMatch({ uid, generation: Number(generation ?? 0) }, how)
    const changes = changesOf((raw.spec ?? {}) as Partial<SecretsSettingsSpec>, draft)
    if (Object.keys(changes).length === 0) return parseStored(SETTINGS, raw)
    const manager = managedBy(raw.metadata)
    if (manager !== undefined) throw managedProblem(manager, Object.keys(changes))
    const patch = { metadata: { uid, resourceVersion }, spec: changes }
    try {
      return parseStored(SETTINGS, await resources.patch(secretsSettingsResource, ref, patch))
    } catch (error) {
      throw rejectedByCluster(error)
    }
  }

  /** The settings once the controller has tried them, or when the time is up. */
  async #whenTried(organization: string, written: SecretsSettings, until: number): Promise<SecretsSettings> {
    let last = written
    await this.#poll(until, async () => {
      const now = await readSettings(this.#options.resources, organization)
      // They were deleted since.
      if (now?.metadata.uid !== written.metadata.uid) return true
      last = now
      return isTried(now) ? true : undefined
    })
    return last
  }

  /** The first result of `look` that is not undefined; undefined when the time is up. */
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

/** @param settings undefined: there are none */
function taggedOf(
  own: Pick<SettingsResource, 'externalId' | 'parameterPrefix'>,
  settings: SecretsSettings | undefined,
): TaggedSettings {
  if (!settings) return { settings: { ...own, conditions: [] } }
  const { metadata, spec, status } = settings
  // Results of earlier settings say nothing about these.
  const observed = isObserved(settings) ? status : undefined
  const { account, trustPolicy, writerPolicy, readerPolicy, checkedAt } = observed ?? {}
  const untried = { ...NOT_TRIED, lastTransitionTime: utc(metadata.creationTimestamp || 0) }
  const resource = defined({
    region: spec.region,
    roleArn: spec.roleArn,
    kmsKeyId: spec.kmsKeyId,
    ...own,
    account,
    trustPolicy,
    writerPolicy,
    readerPolicy,
    checkedAt: checkedAt === undefined ? undefined : utc(checkedAt),
    conditions: observed
      ? (observed.conditions ?? []).map(({ type, status, reason, message, lastTransitionTime }) => ({
          type,
          status,
          reason,
          message,
          lastTransitionTime,
        }))
      : [untried],
  })
  return { settings: resource, etag: etagOf(metadata) }
}

function utc(time: string | number): string {
  return new Date(time).toISOString()
}

/** Without the fields that are undefined. */
function defined<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}

/** Reconciling is true while the controller is at work. */
function isTried(settings: SecretsSettings): boolean {
  const reconciling = settings.status?.conditions?.find(({ type }) => type === 'Reconciling')
  return isObserved(settings) && reconciling?.status === 'False'
}

/** Fields that are absent in the draft are removed. */
function changesOf(spec: Partial<SecretsSettingsSpec>, draft: SettingsDraft): Record<string, string | null> {
  const fields = ['region', 'roleArn', 'kmsKeyId'] as const
  const changes = fields.filter((field) => draft[field] !== spec[field])
  return Object.fromEntries(changes.map((field) => [field, draft[field] ?? null]))
}

const TAG = 'Secrets settings'
const PATH = '/secrets-settings'
const ETAG = { ETag: 'Of the settings as they are now, for If-Match; none while there are no settings.' }

export function settingsRoutes(settings: SecretsSettingsService): Route[] {
  return [getRoute(settings), putRoute(settings)]
}

function getRoute(service: SecretsSettingsService): Route {
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

function putRoute(service: SecretsSettingsService): Route {
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
