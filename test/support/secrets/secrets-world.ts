/** The secrets controller on a cluster and accounts in memory, with stepped time; its process can end and restart. */

import { configMaps, namespaces, secrets } from '../../../src/apis/core-kinds.ts'
import { API_VERSION, type ResourceType } from '../../../src/apis/meta.ts'
import {
  REGISTRY_SECRET_TYPE,
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../../src/apis/registry-credential.ts'
import {
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../../../src/apis/secrets-settings.ts'
import { parseConfig } from '../../../src/cmd/config.ts'
import { type CredentialControllers, createCredentialControllers } from '../../../src/cmd/controller.ts'
import { createMetrics } from '../../../src/cmd/metrics.ts'
import { externalId } from '../../../src/credentials/aws/names.ts'
import { FAILED_DELETIONS_NAME } from '../../../src/credentials/controller/failed-deletions.ts'
import { isApiError, type RawObject } from '../../../src/kube/client.ts'
import { Organizations } from '../../../src/kube/organizations.ts'
import type { Logger } from '../../../src/lib/log.ts'
import { FakeClock, fixedRandom, settle } from '../fake-clock.ts'
import { FaultyApi } from '../faulty-api.ts'
import { type SeenEvent, seeingRecorder } from '../seen-events.ts'
import { type Death, Lifeline } from './lifeline.ts'
import { MemoryCloud, type Ports } from './memory-cloud.ts'
import { MemoryCluster } from './memory-cluster.ts'
import { MortalApi } from './mortal-api.ts'

export const NAMESPACE = 'davit-system'
export const REGION = 'eu-west-1'
/** Shared by all worlds, because a registry of metrics is never freed. */
const METRICS = createMetrics({ version: '0.0.0-test' })
const KEY = new Uint8Array(32).fill(7)
/** The content of a namespace that is deleted with it. */
export const TENANT_TYPES = [secretsSettingsResource, registryCredentials, secrets]

type Process = { life: Lifeline; api: MortalApi; role: CredentialControllers; organizations: Organizations }

export type SecretsWorldOptions = {
  organizations: readonly string[]
  clock?: FakeClock
  /** Replaces the accounts in memory. */
  cloud?: (life: Lifeline) => Ports
  /** ARN of the operator's own identity. */
  principal?: string
}

export class SecretsWorld {
  readonly clock: FakeClock
  readonly cluster = new MemoryCluster(() => this.clock.now())
  /** The cluster as seen by processes. */
  readonly faults = new FaultyApi(this.cluster)
  readonly cloud: MemoryCloud
  readonly #options: SecretsWorldOptions
  readonly events: SeenEvent[] = []
  readonly logLines: { level: string; message: string; fields: unknown }[] = []
  /** UIDs of the organizations. */
  readonly organizations = new Map<string, string>()
  readonly #processes: Process[] = []
  /** Called after each step of time. */
  watchers: (() => void)[] = []
  /** Called for a Secret that a process has deleted. */
  onSecretDeleted: (secret: RawObject) => void = () => undefined
  declare process: Process
  #onDeath: () => Promise<void> = async () => undefined

  private constructor(options: SecretsWorldOptions) {
    this.#options = options
    this.clock = options.clock ?? new FakeClock()
    this.cloud = new MemoryCloud(this.clock)
  }

  static async start(options: SecretsWorldOptions): Promise<SecretsWorld> {
    const world = new SecretsWorld(options)
    for (const name of options.organizations) await world.organization(name)
    await world.begin()
    return world
  }

  async organization(name: string): Promise<void> {
    const labels = { 'davit.dev/organization': 'true' }
    const made = await this.cluster.create(namespaces, { metadata: { name, labels } })
    this.organizations.set(name, made.metadata.uid ?? '')
  }

  externalIdOf(organization: string): string {
    return externalId(KEY, this.organizations.get(organization) ?? '')
  }

  /** Starts a process; it gets all of its state from cluster and accounts. */
  async begin(): Promise<void> {
    const life = new Lifeline()
    const api = new MortalApi(this.faults, life)
    api.onSecretDeleted = (secret) => this.onSecretDeleted(secret)
    const organizations = new Organizations()
    const { cloud, principal } = this.#options
    for (const [name, uid] of this.organizations) organizations.apply({ name, uid, ownerEmails: [] })
    const role = createCredentialControllers({
      config: parseConfig({
        DAVIT_NAMESPACE: NAMESPACE,
        ...(principal === undefined ? {} : { DAVIT_OPERATOR_PRINCIPAL_ARN: principal }),
      }),
      dependencies: {
        api,
        cloud: cloud ? cloud(life) : this.cloud.ports((name, run) => life.call(name, run)),
        clock: life.clock(this.clock),
        random: fixedRandom(),
        log: this.#log(life),
        events: seeingRecorder(this.events),
        metrics: METRICS,
      },
      organizations,
      installationKey: KEY,
    })
    this.process = { life, api, role, organizations }
    this.#processes.push(this.process)
    for (const watch of role.watches) watch.start()
    let isSynced = false
    void Promise.all(role.watches.map(({ synced }) => synced)).then(() => {
      isSynced = true
    })
    while (!isSynced && !life.dead) await this.clock.elapse(1)
    if (!life.dead) role.start()
  }

  /** Ends the running process at this call; then `meanwhile` happens, and the next one starts. */
  dies(death: Death | undefined, meanwhile: () => Promise<void> = async () => undefined): void {
    this.process.life.count(death)
    this.#onDeath = meanwhile
  }

  async restart(): Promise<void> {
    this.process.life.kill()
    await this.begin()
  }

  /** Stops all processes, including dead ones. */
  async stop(): Promise<void> {
    for (const { life } of this.#processes) life.bury()
    await Promise.all(this.#processes.map(({ role }) => role.stop()))
  }

  /** Advances time in growing steps. */
  async elapse(ms: number): Promise<void> {
    const end = this.clock.monotonic() + ms
    for (let step = 100; this.clock.monotonic() < end; step = Math.min(60_000, step * 1.5)) {
      await this.clock.elapse(Math.min(step, end - this.clock.monotonic()))
      if (this.process.life.dead) await this.#reborn()
      for (const watcher of this.watchers) watcher()
    }
  }

  async #reborn(): Promise<void> {
    const meanwhile = this.#onDeath
    this.#onDeath = async () => undefined
    await meanwhile()
    await settle()
    await this.begin()
  }

  // Actions of users.

  async settings(organization: string, spec: Record<string, unknown>): Promise<void> {
    await this.#apply(secretsSettingsResource, organization, {
      kind: 'SecretsSettings',
      name: 'default',
      spec,
    })
  }

  /** A role for the organization in an account. @returns its ARN */
  role(organization: string, account: string, name = organization): string {
    const roleArn = `arn:aws:iam::${account}:role/${name}`
    this.cloud.addRole(roleArn, this.externalIdOf(organization))
    return roleArn
  }

  async connect(organization: string, account: string, region = REGION): Promise<void> {
    const roleArn = this.role(organization, account)
    await this.settings(organization, { region, roleArn })
  }

  async credential(organization: string, name: string, spec: Record<string, unknown> = {}): Promise<void> {
    const whole = { type: 'token', label: name, registry: 'ghcr.io', username: 'bot', ...spec }
    await this.#apply(registryCredentials, organization, { kind: 'RegistryCredential', name, spec: whole })
  }

  /** Creates or changes the input Secret and the credential. */
  async handOver(organization: string, name: string, value: string, retain = false): Promise<void> {
    const data = { secret: Buffer.from(value).toString('base64') }
    const ref = { namespace: organization, name }
    const annotations = retain ? { 'davit.dev/retain': 'true' } : {}
    if (await this.find(secrets, ref)) {
      await this.cluster.patch(secrets, ref, { data })
      return
    }
    await this.cluster.create(secrets, {
      metadata: { ...ref, annotations },
      type: REGISTRY_SECRET_TYPE,
      data,
    })
  }

  async remove(type: ResourceType, organization: string, name: string): Promise<void> {
    const ref = { namespace: organization, name }
    if (await this.find(type, ref)) await this.cluster.delete(type, ref)
  }

  // Queries.

  async find(type: ResourceType, ref: { namespace: string; name: string }): Promise<RawObject | undefined> {
    try {
      return await this.cluster.get(type, ref)
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }

  credentials(): RegistryCredential[] {
    return this.cluster.all(registryCredentials).map((raw) => registryCredential.parse(raw))
  }

  allSettings(): SecretsSettings[] {
    return this.cluster.all(secretsSettingsResource).map((raw) => secretsSettings.parse(raw))
  }

  credentialOf(organization: string, name: string): RegistryCredential | undefined {
    return this.credentials().find(
      ({ metadata }) => metadata.namespace === organization && metadata.name === name,
    )
  }

  failedDeletions(): { name: string; account: string; region: string; reason: string }[] {
    const ledger = this.cluster
      .all(configMaps)
      .find(({ metadata }) => metadata.name === FAILED_DELETIONS_NAME)
    return Object.values((ledger?.data ?? {}) as Record<string, string>).map((text) => JSON.parse(text))
  }

  async #apply(
    type: ResourceType,
    namespace: string,
    { kind, name, spec }: { kind: string; name: string; spec: Record<string, unknown> },
  ): Promise<void> {
    if (await this.find(type, { namespace, name }))
      await this.cluster.patch(type, { namespace, name }, { spec })
    else
      await this.cluster.create(type, { apiVersion: API_VERSION, kind, metadata: { namespace, name }, spec })
  }

  #log(life: Lifeline): Logger {
    const add = (level: string) => (_event: string, message: string, fields?: unknown) => {
      if (!life.dead) this.logLines.push({ level, message, fields })
    }
    return { info: add('info'), warn: add('warn'), error: add('error') } as Logger
  }
}
