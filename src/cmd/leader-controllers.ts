import type { BoxTemplate } from '../apis/box-template.ts'
import type { RegistryCredential } from '../apis/registry-credential.ts'
import type { SecretsSettings } from '../apis/secrets-settings.ts'
import { TemplateReconciler } from '../boxes/controller/controller.ts'
import { BakeSlots } from '../boxes/controller/quota.ts'
import { createSettingsWriter, SettingsReconciler } from '../credentials/accounts/controller.ts'
import { credentialHasRecorded, credentialMayStore } from '../credentials/accounts/disconnect.ts'
import { AccountListings } from '../credentials/accounts/garbage.ts'
import { AccountAccess, OperatorPrincipal } from '../credentials/accounts/identity.ts'
import { CredentialReconciler } from '../credentials/controller/controller.ts'
import { FailedDeletions } from '../credentials/controller/failed-deletions.ts'
import { type CredentialContext, createCredentialWriter } from '../credentials/controller/gather.ts'
import { inputSecretMark } from '../credentials/controller/input-secret.ts'
import { FailedDeletionReconciler } from '../credentials/controller/retry-deletions.ts'
import { MutationCache } from '../kube/mutation-cache.ts'
import type { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop, type Reconciler } from '../kube/reconcile-loop.ts'
import type { ConcurrencyGroup } from '../kube/workqueue.ts'
import { KeyedMutex } from '../lib/semaphore.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

/**
 * Builds the loops that keep the secrets of organizations in their accounts. Nothing runs yet; `controller.ts` connects them to
 * the watches.
 */

export type CredentialOptions = {
  config: Pick<Config, 'cloud' | 'namespace'>
  dependencies: Pick<
    ControllerDependencies,
    'api' | 'cloud' | 'clock' | 'random' | 'log' | 'events' | 'metrics'
  >
  organizations: Organizations
  installationKey: Uint8Array
}

/**
 * Passes at a time. A pass may wait long for its turn at an account. Turns are fair between organizations and a queue of keys is
 * not, so one organization may have only a few passes that wait.
 */
const CREDENTIALS_AT_A_TIME = 5000
const OF_ONE_ORGANIZATION = 50
/** Each deleted credential has a minute from its deletion on, whatever else its organization waits for. */
const DELETED_OF_ONE_ORGANIZATION = 1000
const SETTINGS_AT_A_TIME = 200
const PASS_DEADLINE_MS = 900_000

export type CredentialLoops = ReturnType<typeof buildCredentialLoops>

export function buildCredentialLoops(options: CredentialOptions) {
  const { dependencies, organizations, config } = options
  const context = createContext(options)
  const { book: credentials, failedDeletions, accounts, listings } = context
  const settings = new MutationCache<SecretsSettings>()
  const loop = (name: string, reconciler: Reconciler, concurrency: number) => ({
    ...dependencies,
    name,
    reconciler,
    concurrency,
    deadlineMs: PASS_DEADLINE_MS,
  })
  const credentialReconciler = new CredentialReconciler(context)
  const settingsReconciler = createSettingsReconciler(options, context, settings)
  const retries = new FailedDeletionReconciler(context, config.cloud.driftCheckMs)
  return {
    settings,
    credentials,
    failedDeletions,
    accounts,
    listings,
    organizations,
    settingsReconciler,
    credentialReconciler,
    settingsLoop: new ReconcileLoop(loop('secrets-settings', settingsReconciler, SETTINGS_AT_A_TIME)),
    credentialLoop: new ReconcileLoop({
      ...loop('registry-credential', credentialReconciler, CREDENTIALS_AT_A_TIME),
      concurrencyGroupOf: (key) => concurrencyGroupOf(credentials, key),
    }),
    failedDeletionLoop: new ReconcileLoop(loop('orphaned-parameters', retries, 1)),
  }
}

/** Credentials that need no account do not wait behind those that do. */
function concurrencyGroupOf(credentials: MutationCache<RegistryCredential>, key: string): ConcurrencyGroup {
  const [organization = '', name = ''] = key.split('/')
  const credential = credentials.get(organization, name)
  if (credential?.metadata.deletionTimestamp !== undefined)
    return { name: `${organization} deleted`, limit: DELETED_OF_ONE_ORGANIZATION }
  return { name: `${organization} ${credential?.spec.type}`, limit: OF_ONE_ORGANIZATION }
}

function createContext(options: CredentialOptions): CredentialContext {
  const { config, dependencies, organizations, installationKey } = options
  const { api, cloud, clock } = dependencies
  const { parameterPrefix: prefix, driftCheckMs: listEveryMs } = config.cloud
  const book = new MutationCache<RegistryCredential>()
  return {
    ...dependencies,
    resources: api,
    book,
    writer: createCredentialWriter(api, book),
    organizations,
    accounts: new AccountAccess(installationKey, prefix, organizations, api),
    listings: new AccountListings({ cloud, clock, prefix, listEveryMs }),
    failedDeletions: new FailedDeletions({ ...dependencies, resources: api, namespace: config.namespace }),
    mutex: new KeyedMutex(),
    prefix,
    markOf: (of) => inputSecretMark(installationKey, of),
  }
}

function createSettingsReconciler(
  { config, dependencies }: CredentialOptions,
  context: CredentialContext,
  book: MutationCache<SecretsSettings>,
): SettingsReconciler {
  const { requireWriteOnly, accountCheckMs, driftCheckMs, principalArn } = config.cloud
  const { cloud, clock, random, api } = dependencies
  const { mutex } = context
  return new SettingsReconciler({
    ...context,
    cloud,
    book,
    random,
    writer: createSettingsWriter(api, book),
    principal: new OperatorPrincipal(cloud, clock, principalArn),
    // A cached credential that was deleted in the meantime keeps its parameter until the next sweep.
    mayStore: async (organization, credential) =>
      context.book.get(organization, credential)?.spec.type === 'token' ||
      (await credentialMayStore(api, organization, credential)),
    isRecorded: (organization, credential, at) => credentialHasRecorded(api, organization, credential, at),
    exclusively: (organization, credential, act) => mutex.run(`${organization}/${credential}`, act),
    settled: async (organization) => {
      const names = context.book.in(organization).map(({ metadata }) => metadata.name)
      await Promise.all(names.map((name) => mutex.run(`${organization}/${name}`, async () => undefined)))
    },
    recordFailedDeletion: (parameter) => context.failedDeletions.add(parameter),
    requireWriteOnly,
    checkEveryMs: accountCheckMs,
    listEveryMs: driftCheckMs,
  })
}

/** Builds the loop that bakes the templates of organizations. `controller.ts` connects it to the watches. */

export type BoxOptions = {
  config: Pick<Config, 'bake'>
  dependencies: Pick<ControllerDependencies, 'api' | 'clock' | 'random' | 'log' | 'metrics' | 'events'>
  organizations: Organizations
  /** Those of all organizations, as the credential controller knows them. */
  credentials: MutationCache<RegistryCredential>
}

export type BoxLoop = ReturnType<typeof buildBoxLoop>

const TEMPLATES_AT_A_TIME = 16

export function buildBoxLoop({ config, dependencies, organizations }: BoxOptions) {
  const templates = new MutationCache<BoxTemplate>()
  const slots = new BakeSlots(config.bake.limits, (key) => templateLoop.add(key))
  const reconciler = new TemplateReconciler({
    ...dependencies,
    resources: dependencies.api,
    book: templates,
    organizations,
    settings: config.bake,
    slots,
  })
  const templateLoop: ReconcileLoop = new ReconcileLoop({
    ...dependencies,
    name: 'box-template',
    reconciler,
    concurrency: TEMPLATES_AT_A_TIME,
  })
  return { templates, templateLoop, slots }
}
