import type { ObjectMeta } from '../apis/meta.ts'
import {
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../apis/registry-credential.ts'
import { type SecretsSettings, secretsSettings, secretsSettingsResource } from '../apis/secrets-settings.ts'
import { SettingsReconciler } from '../credentials/accounts/controller.ts'
import { credentialHasRecorded, credentialMayStore } from '../credentials/accounts/disconnect.ts'
import { AccountListings } from '../credentials/accounts/garbage.ts'
import { AccountAccess, OperatorPrincipal } from '../credentials/accounts/identity.ts'
import { SettingsWriter } from '../credentials/accounts/status.ts'
import { CredentialReconciler } from '../credentials/controller/controller.ts'
import { FailedDeletions } from '../credentials/controller/failed-deletions.ts'
import { type CredentialContext, CredentialWriter } from '../credentials/controller/gather.ts'
import { inputSecretMark } from '../credentials/controller/input-secret.ts'
import { FailedDeletionReconciler } from '../credentials/controller/retry-deletions.ts'
import { Informer, type InformerDependencies } from '../kube/informer.ts'
import { MutationCache } from '../kube/mutation-cache.ts'
import type { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop, type Reconciler } from '../kube/reconcile-loop.ts'
import type { ConcurrencyGroup, ConcurrencyGroupOf } from '../kube/workqueue.ts'
import { KeyedMutex } from '../lib/semaphore.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

/** Everything that keeps the secrets of organizations in their accounts, wired; nothing runs yet. */

type CredentialComponents = {
  settings: MutationCache<SecretsSettings>
  credentials: MutationCache<RegistryCredential>
  ledger: FailedDeletions
  accounts: AccountAccess
  settingsLoop: ReconcileLoop
  credentialLoop: ReconcileLoop
  orphanLoop: ReconcileLoop
}

/** What of the world it needs. */
export type CredentialDependencies = Pick<
  ControllerDependencies,
  'api' | 'cloud' | 'clock' | 'random' | 'log' | 'events' | 'metrics'
>

type CredentialControllersOptions = {
  config: Pick<Config, 'cloud' | 'namespace'>
  world: CredentialDependencies
  organizations: Organizations
  installationKey: Uint8Array
}

/**
 * A pass may wait for its turn at an account: those of one organization that may do so are few, so that they take no time of others. Turns
 * are fair between organizations, a queue of keys is not.
 */
const CREDENTIALS_AT_A_TIME = 5000
const OF_ONE_ORGANIZATION = 50
/** Each has its minute from its deletion on, whatever else its organization waits for. */
const DELETED_OF_ONE_ORGANIZATION = 1000
const SETTINGS_AT_A_TIME = 200
/** A turn may be far away. */
const PASS_DEADLINE_MS = 900_000

function createCredentialComponents(options: CredentialControllersOptions): CredentialComponents {
  const { world } = options
  const { context, settings } = createContext(options)
  const loop = (
    name: string,
    reconciler: Reconciler,
    more: { concurrency: number; concurrencyGroupOf?: ConcurrencyGroupOf },
  ) => new ReconcileLoop({ ...world, name, reconciler, deadlineMs: PASS_DEADLINE_MS, ...more })
  const credentialReconciler = new CredentialReconciler(context)
  const settingsReconciler = createSettings(options, context, settings)
  const credentialLoop = loop('registry-credential', credentialReconciler, {
    concurrency: CREDENTIALS_AT_A_TIME,
    concurrencyGroupOf: (key) => concurrencyGroupOf(context.book, key),
  })
  const settingsLoop = loop('secrets-settings', settingsReconciler, { concurrency: SETTINGS_AT_A_TIME })
  const orphans = new FailedDeletionReconciler(context, options.config.cloud.driftCheckMs)
  const orphanLoop = loop('orphaned-parameters', orphans, { concurrency: 1 })
  const parts = {
    settings,
    credentials: context.book,
    ledger: context.failedDeletions,
    accounts: context.accounts,
    settingsLoop,
    credentialLoop,
    orphanLoop,
  }
  wake(parts, context, { credentials: credentialReconciler, settings: settingsReconciler })
  return parts
}

/** What needs no account does not wait behind what does. */
function concurrencyGroupOf(book: MutationCache<RegistryCredential>, key: string): ConcurrencyGroup {
  const [organization = '', name = ''] = key.split('/')
  const credential = book.get(organization, name)
  if (credential?.metadata.deletionTimestamp !== undefined)
    return { name: `${organization} deleted`, limit: DELETED_OF_ONE_ORGANIZATION }
  return { name: `${organization} ${credential?.spec.type}`, limit: OF_ONE_ORGANIZATION }
}

function createContext({ config, world, organizations, installationKey }: CredentialControllersOptions) {
  const { api, cloud, clock, log, events, metrics } = world
  const { parameterPrefix: prefix, driftCheckMs: listEveryMs } = config.cloud
  const book = new MutationCache<RegistryCredential>()
  const accounts = new AccountAccess({ organizations, resources: api, installationKey })
  const listings = new AccountListings({ cloud, clock, prefix, listEveryMs })
  const ledger = new FailedDeletions({
    resources: api,
    namespace: config.namespace,
    events,
    metrics,
    clock,
    log,
  })
  const context: CredentialContext = {
    resources: api,
    cloud,
    book,
    writer: new CredentialWriter(api, book),
    organizations,
    accounts,
    listings,
    failedDeletions: ledger,
    mutex: new KeyedMutex(),
    prefix,
    markOf: (of) => inputSecretMark(installationKey, of),
    events,
    metrics,
    clock,
    log,
  }
  return { context, settings: new MutationCache<SecretsSettings>() }
}

function createSettings(
  { config, world }: CredentialControllersOptions,
  context: CredentialContext,
  book: MutationCache<SecretsSettings>,
): SettingsReconciler {
  const { requireWriteOnly, accountCheckMs, driftCheckMs, principalArn } = config.cloud
  const { cloud, clock, random, api } = world
  const { mutex } = context
  return new SettingsReconciler({
    ...context,
    book,
    cloud,
    random,
    writer: new SettingsWriter(api, book),
    principal: new OperatorPrincipal(cloud, clock, principalArn),
    // What is known to be gone only when it is asked for is there until the next sweep.
    mayStore: async (organization, credential) =>
      context.book.get(organization, credential)?.spec.type === 'token' ||
      (await credentialMayStore(api, organization, credential)),
    isRecorded: (organization, credential, at) =>
      credentialHasRecorded(api, { organization, credential }, at),
    exclusively: (organization, credential, act) => mutex.run(`${organization}/${credential}`, act),
    settled: async (organization) => {
      const names = context.book.in(organization).map(({ metadata }) => metadata.name)
      await Promise.all(names.map((name) => mutex.run(`${organization}/${name}`, async () => undefined)))
    },
    recordFailedDeletion: (orphan) => context.failedDeletions.add(orphan),
    requireWriteOnly,
    checkEveryMs: accountCheckMs,
    listEveryMs: driftCheckMs,
  })
}

/** Changes of what a credential or an account depends on. */
function wake(
  { settings, credentials, settingsLoop, credentialLoop }: CredentialComponents,
  context: CredentialContext,
  reconcilers: { credentials: CredentialReconciler; settings: SettingsReconciler },
): void {
  const keysOf = (organization: string) =>
    credentials.in(organization).map(({ metadata }) => `${organization}/${metadata.name}`)
  const wakeAll = (organization: string) => {
    for (const key of keysOf(organization)) credentialLoop.add(key)
  }
  settings.listen((object, before) => {
    const { namespace = '' } = object.metadata
    if (isWantedOtherwise(object, before)) {
      reconcilers.settings.interrupt(namespace)
      for (const key of keysOf(namespace)) reconcilers.credentials.interrupt(key)
    }
    settingsLoop.add(namespace)
    wakeAll(namespace)
  })
  credentials.listen((object, before) => {
    const { namespace = '', name } = object.metadata
    const key = `${namespace}/${name}`
    if (isWantedOtherwise(object, before)) reconcilers.credentials.interrupt(key)
    credentialLoop.add(key)
  })
  context.listings.listen(wakeAll)
  context.organizations.listen((name) => {
    settingsLoop.add(name)
    wakeAll(name)
  })
}

type Wanted = { metadata: ObjectMeta }

function isWantedOtherwise({ metadata: now }: Wanted, before: Wanted | undefined): boolean {
  const { uid, generation, deletionTimestamp } = before?.metadata ?? now
  const isOther = now.uid !== uid || now.generation !== generation
  return isOther || (now.deletionTimestamp !== undefined && deletionTimestamp === undefined)
}

/** What is watched for the secrets of organizations: no Secret, since that would need the right to see all of them. */

/** Not started. */
function createCredentialWatches(
  parts: CredentialComponents,
  needs: InformerDependencies,
): Informer<unknown>[] {
  const settings = new Informer(
    {
      type: secretsSettingsResource,
      decode: (raw) => secretsSettings.parse(raw),
      handler: {
        applied: (object) => parts.settings.apply(object),
        deleted: (object) => parts.settings.remove(object),
      },
    },
    needs,
  )
  const credentials = new Informer(
    {
      type: registryCredentials,
      decode: (raw) => registryCredential.parse(raw),
      handler: {
        applied: (object) => parts.credentials.apply(object),
        deleted: (object) => parts.credentials.remove(object),
      },
    },
    needs,
  )
  return [settings, credentials] as Informer<unknown>[]
}

/** The part of the controller that keeps secrets of organizations in their accounts. */
export type CredentialControllers = {
  parts: CredentialComponents
  /** To be started and synced before `start`. */
  watches: readonly Informer<unknown>[]
  start(): void
  stop(): Promise<void>
}

const FAILED_DELETIONS_KEY = 'all'

export function createCredentialControllers(options: CredentialControllersOptions): CredentialControllers {
  const parts = createCredentialComponents(options)
  const watches = createCredentialWatches(parts, options.world)
  const loops = [parts.settingsLoop, parts.credentialLoop, parts.orphanLoop]
  return {
    parts,
    watches,
    start() {
      parts.orphanLoop.add(FAILED_DELETIONS_KEY)
      for (const loop of loops) loop.start()
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
      await Promise.all(watches.map((watch) => watch.stop()))
    },
  }
}
