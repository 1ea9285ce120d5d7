/**
 * Brings the SecretsSettings of an organization in line with its cloud account (interface §2.6): connects, finds out what the role can do,
 * lists what the account holds, and writes all that into the status. Before an account is left, garbage is removed from it.
 */

import {
  ACCOUNT_FINALIZER,
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  type SettingsStall,
  secretsSettings,
  secretsSettingsResource,
} from '../../apis/secrets-settings.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { type MutationCache, ObjectGoneError, ObjectWriter } from '../../kube/mutation-cache.ts'
import { notAnOrganization, type Organizations } from '../../kube/organizations.ts'
import {
  InterruptiblePasses,
  noRequeue,
  type ReconcileResult,
  type Reconciler,
  requeueAfter,
  unlessGone,
} from '../../kube/reconcile-loop.ts'
import type { ConditionUpdate } from '../../kube/status.ts'
import type { CloudError } from '../cloud.ts'
import { AccountDisconnector, type AccountDisconnectorOptions, settingsEventTarget } from './disconnect.ts'
import { collectGarbage, GARBAGE_AGE_MS, MAX_GARBAGE } from './garbage.ts'
import { AGAIN_AFTER_MS, type OperatorPrincipal } from './identity.ts'
import {
  assessConnection,
  type ConnectionAssessment,
  connectedTo,
  type ProbeResults,
  settingsStatus,
} from './plan.ts'
import { CheckSchedule, type CheckScheduleOptions, type ProbeOptions, probeAccount } from './probe.ts'

/** Learned writes wake the watchers of the cache at once, so that credentials do not wait for the watch. */
export function createSettingsWriter(
  resources: ResourceReader & ResourceWriter,
  cache: MutationCache<SecretsSettings>,
): ObjectWriter<SecretsSettings> {
  return new ObjectWriter({
    resources,
    type: secretsSettingsResource,
    decode: (raw) => secretsSettings.parse(raw),
    cache: { learn: (settings) => cache.announce(settings) },
  })
}

type SettingsReconcilerOptions = ProbeOptions &
  AccountDisconnectorOptions &
  CheckScheduleOptions & {
    book: MutationCache<SecretsSettings>
    writer: ObjectWriter<SecretsSettings>
    organizations: Organizations
    principal: OperatorPrincipal
    /** Whether a resource of this name may have a parameter, read live; one that is being deleted may. */
    mayStore: (organization: string, credential: string) => Promise<boolean>
    requireWriteOnly: boolean
  }

const CONFLICT_RETRY_MS = 1000

export class SettingsReconciler implements Reconciler {
  readonly #options: SettingsReconcilerOptions
  readonly #schedule: CheckSchedule
  readonly #disconnector: AccountDisconnector
  readonly #interruptions = new InterruptiblePasses()

  constructor(options: SettingsReconcilerOptions) {
    this.#options = options
    this.#schedule = new CheckSchedule(options)
    this.#disconnector = new AccountDisconnector(options)
  }

  /** @param namespace the key is the organization */
  async reconcile(namespace: string, signal: AbortSignal): Promise<ReconcileResult> {
    return await this.#interruptions.run(namespace, signal, (both) => this.#reconcile(namespace, both))
  }

  /** Restarts a pass that waits for the account, since the settings were deleted or their spec changed. */
  interrupt(namespace: string): void {
    this.#interruptions.interrupt(namespace)
  }

  async #reconcile(namespace: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { book, listings, writer } = this.#options
    const settings = book.get(namespace, SECRETS_SETTINGS_NAME)
    if (!settings) {
      this.#schedule.forget(namespace)
      listings.forget(namespace)
      return noRequeue()
    }
    const hasFinalizer = settings.metadata.finalizers?.includes(ACCOUNT_FINALIZER)
    try {
      if (settings.metadata.deletionTimestamp !== undefined)
        return hasFinalizer ? await this.#disconnect(settings, signal) : noRequeue()
      const held = hasFinalizer ? settings : await writer.addFinalizer(settings, ACCOUNT_FINALIZER)
      return await this.#check(held, signal)
    } catch (error) {
      if (error instanceof ObjectGoneError) return noRequeue()
      if (!isApiError(error, 'Conflict')) throw error
      await unlessGone(() => writer.read(settings))
      return requeueAfter(CONFLICT_RETRY_MS)
    }
  }

  async #disconnect(settings: SecretsSettings, signal: AbortSignal): Promise<ReconcileResult> {
    const retryMs = await this.#disconnector.disconnectAll(settings, signal)
    if (retryMs !== undefined) return requeueAfter(retryMs)
    this.#options.listings.forget(settings.metadata.namespace ?? '')
    await this.#options.writer.removeFinalizer(settings, ACCOUNT_FINALIZER)
    return noRequeue()
  }

  async #check(settings: SecretsSettings, signal: AbortSignal): Promise<ReconcileResult> {
    const { writer, clock, prefix, accounts, requireWriteOnly } = this.#options
    const { metadata, spec, status } = settings
    const organization = metadata.namespace ?? ''
    const externalId = accounts.externalIdOf(await accounts.uidOf(organization))
    const principal = await this.#options.principal.get()
    const problem = this.#problemOf(organization)
    const isDue = !problem && this.#schedule.isCheckDue(settings)
    const results = isDue ? await this.#probe(settings, signal) : undefined
    const assessment = assessConnection({
      problem,
      externalId,
      principal,
      results,
      roleArn: spec.roleArn,
      before: status?.observedGeneration === metadata.generation ? status?.conditions : undefined,
      requireWriteOnly,
    })
    // An interrupted probe says nothing about the account.
    signal.throwIfAborted()
    if (assessment.connected) await this.#disconnector.disconnectPrevious(settings, signal)
    const tried = results !== undefined
    const facts = { settings, prefix, externalId, principal, assessment, tried, now: clock.now() }
    const written = await writer.updateStatus(settings, settingsStatus(facts))
    // Only now: if the write fails, its results are lost, and the check stays due.
    if (results) this.#schedule.checked(settings, assessment)
    this.#recordEvents(settings, assessment)
    if (assessment.connected) await this.#list(written, signal)
    const check = !problem && spec.roleArn !== undefined
    const nextMs = this.#schedule.nextMs(settings, { check, list: assessment.connected })
    if (principal === undefined) return requeueAfter(Math.min(AGAIN_AFTER_MS, nextMs ?? AGAIN_AFTER_MS))
    return nextMs === undefined ? noRequeue() : requeueAfter(nextMs)
  }

  #problemOf(organization: string): { reason: SettingsStall; message: string } | undefined {
    return this.#options.organizations.get(organization) ? undefined : notAnOrganization(organization)
  }

  async #probe(settings: SecretsSettings, signal: AbortSignal): Promise<ProbeResults | undefined> {
    const account = connectedTo(settings)
    if (!account) return undefined
    const access = await this.#options.accounts.accessTo(settings.metadata.namespace ?? '', account)
    return await probeAccount(this.#options, access, { signal })
  }

  async #list(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const { accounts, listings, random, mayStore } = this.#options
    const connected = settings.status?.connected
    if (!connected || !this.#schedule.isListingDue(settings)) return
    this.#schedule.listed(settings)
    const organization = settings.metadata.namespace ?? ''
    let failure: CloudError | undefined
    try {
      const access = await accounts.accessTo(organization, connected)
      await collectGarbage(this.#options, access, await listings.list(access, signal), {
        minAgeMs: GARBAGE_AGE_MS,
        startAt: random.fraction(),
        max: MAX_GARBAGE,
        limits: { signal },
        isReferenced: (_, credential) => mayStore(organization, credential),
        failed: async (_, error) => {
          failure ??= error
          // The next parameter would wait as long; a missing right may concern this one only.
          if (error.remedy === 'retry') throw error
        },
      })
      if (failure) throw failure
    } catch (error) {
      signal.throwIfAborted()
      this.#disconnector.reportFailure(settings, connected, error)
    }
  }

  /** For conditions that have changed. */
  #recordEvents(settings: SecretsSettings, { findings, warning }: ConnectionAssessment): void {
    const before = settings.status?.conditions
    const changed = (type: string) => {
      const finding = findings.find((one) => one.type === type)
      const held = before?.find((one) => one.type === type)
      return finding?.status !== held?.status || finding?.reason !== held?.reason ? finding : undefined
    }
    const record = (
      type: 'Normal' | 'Warning',
      { reason, message }: Pick<ConditionUpdate, 'reason' | 'message'>,
    ) => this.#options.events.record(settingsEventTarget(settings), { type, reason, message })
    const ready = changed('Ready')
    const stalled = changed('Stalled')
    if (ready?.status === 'True') record('Normal', ready)
    if (stalled?.status === 'True') record('Warning', stalled)
    else if (warning && changed('WriteOnly')) record('Warning', warning)
  }
}
