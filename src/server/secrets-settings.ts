/** Secrets settings over REST: the resource `default` that kubectl and Git see as well. */

import { managedBy } from '../apis/managed-elsewhere.ts'
import { API_VERSION } from '../apis/meta.ts'
import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  type SecretsSettingsSpec,
  secretsSettingsKind,
  secretsSettingsResource,
} from '../apis/secrets-settings.ts'
import type { AccountIdentity } from '../credentials/accounts/account-identity.ts'
import { ApiError, isApiError, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Organization } from '../kube/organizations.ts'
import { etagOf, ifMatchHolds } from '../lib/etag.ts'
import type { Clock } from '../lib/ports-clock.ts'
import { sleep } from '../lib/sleep.ts'
import type { Conditional } from './endpoint-resource.ts'
import { clusterRefusal } from './http/cluster-refusal.ts'
import { withRefusals } from './http/refusals.ts'
import { RefusedError } from './http/refused-error.ts'
import { isObserved, parseSettings, readRawSettings, readSettings } from './live-settings.ts'
import type { OrganizationSettings, SettingsDraft, TaggedSettings } from './ports-secrets-settings.ts'
import { type SettingsOwner, taggedOf } from './settings-resource.ts'
import { retryOnConflict } from './until-undisturbed.ts'

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
