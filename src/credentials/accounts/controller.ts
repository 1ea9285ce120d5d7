/**
 * One pass over the SecretsSettings of an organization: connect, find out what the role can do, list what the account holds, and
 * say all that in the status. Before an account is left, what nobody speaks of is removed from it.
 */

import {
  ACCOUNT_FINALIZER,
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  type SettingsStall,
} from '../../apis/secrets-settings.ts'
import { isApiError } from '../../kube/client.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'
import type { Organizations } from '../../kube/organizations.ts'
import {
  InterruptiblePasses,
  noRequeue,
  type ReconcileResult,
  type Reconciler,
  requeueAfter,
} from '../../kube/reconcile-loop.ts'
import type { Random } from '../../lib/clock.ts'
import type { CloudError } from '../cloud.ts'
import { AccountDisconnector, type AccountDisconnectorOptions } from './disconnect.ts'
import { collectGarbage } from './garbage.ts'
import { AGAIN_AFTER_MS, type OperatorPrincipal } from './identity.ts'
import {
  assessConnection,
  type ConnectionAssessment,
  connectedTo,
  type ProbeResults,
  settingsStatus,
} from './plan.ts'
import { CheckSchedule, type ProbeOptions, probeAccount } from './probe.ts'
import { finalizersOf, type SettingsWriter, settingsEventTarget } from './status.ts'

export type ReconcileSettingsOptions = ProbeOptions &
  AccountDisconnectorOptions & {
    book: MutationCache<SecretsSettings>
    writer: SettingsWriter
    organizations: Organizations
    principal: OperatorPrincipal
    random: Random
    /** Whether a resource of this name is there now that may have a parameter, read live; one that is being deleted is. */
    mayStore: (organization: string, credential: string) => Promise<boolean>
    requireWriteOnly: boolean
    /** Between two looks at what the role can do, and at what the account holds. */
    checkEveryMs: number
    listEveryMs: number
  }

/** A request by REST takes less from the parameter to its resource. */
const STRAY_AGE_MS = 600_000
/** In one sweep. */
const MOST_STRAYS = 200
/** The watch may be behind what was read. */
const CONFLICT_AGAIN_MS = 1000

export class SettingsReconciler implements Reconciler {
  readonly #options: ReconcileSettingsOptions
  readonly #times: CheckSchedule
  readonly #leaver: AccountDisconnector
  readonly #interruptions = new InterruptiblePasses()

  constructor(options: ReconcileSettingsOptions) {
    this.#options = options
    this.#times = new CheckSchedule(options)
    this.#leaver = new AccountDisconnector(options)
  }

  /** @param namespace the key is the organization */
  async reconcile(namespace: string, signal: AbortSignal): Promise<ReconcileResult> {
    return await this.#interruptions.run(namespace, signal, (both) => this.#reconcile(namespace, both))
  }

  /** They were deleted, or are wanted otherwise: what a pass waits for is of no use any more. */
  interrupt(namespace: string): void {
    this.#interruptions.interrupt(namespace)
  }

  async #reconcile(namespace: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { book, listings, writer } = this.#options
    const settings = book.get(namespace, SECRETS_SETTINGS_NAME)
    if (!settings) {
      this.#times.forget(namespace)
      listings.forget(namespace)
      return noRequeue()
    }
    try {
      if (settings.metadata.deletionTimestamp !== undefined) return await this.#leave(settings, signal)
      if (finalizersOf(settings).includes(ACCOUNT_FINALIZER)) return await this.#pass(settings, signal)
      const held = await writer.addFinalizer(settings)
      return held ? await this.#pass(held, signal) : noRequeue()
    } catch (error) {
      if (!isApiError(error, 'Conflict')) throw error
      await writer.refresh(settings)
      return requeueAfter(CONFLICT_AGAIN_MS)
    }
  }

  async #pass(settings: SecretsSettings, signal: AbortSignal): Promise<ReconcileResult> {
    const { book, writer, clock, prefix, accounts } = this.#options
    const organization = settings.metadata.namespace ?? ''
    const externalId = accounts.externalIdOf(await accounts.uidOf(organization))
    const principal = await this.#options.principal.get(settings.spec.region)
    const problem = this.#problemOf(organization)
    const isDue = !problem && this.#times.isCheckDue(settings)
    const results = isDue ? await this.#probe(settings, signal) : undefined
    const verdict = this.#verdict(settings, { externalId, principal, problem, results })
    // What a process at its end was told by nobody is not to be said of the account.
    signal.throwIfAborted()
    if (verdict.connected) await this.#leaver.disconnectPrevious(settings, signal)
    const facts = {
      settings,
      prefix,
      externalId,
      principal,
      assessment: verdict,
      tried: results !== undefined,
    }
    await writer.status(settings, settingsStatus({ ...facts, now: clock.now() }))
    // Not before it is written: what was found out is lost with a write that fails.
    if (results) this.#times.checked(settings, verdict)
    this.#tell(settings, verdict)
    if (verdict.connected) await this.#list(book.get(organization, SECRETS_SETTINGS_NAME) ?? settings, signal)
    const check = !problem && settings.spec.roleArn !== undefined
    return this.#next(this.#times.nextMs(settings, { check, list: verdict.connected }), principal)
  }

  #next(ms: number | undefined, principal: string | undefined): ReconcileResult {
    if (principal === undefined) return requeueAfter(Math.min(AGAIN_AFTER_MS, ms ?? AGAIN_AFTER_MS))
    return ms === undefined ? noRequeue() : requeueAfter(ms)
  }

  #problemOf(organization: string): { reason: SettingsStall; message: string } | undefined {
    if (this.#options.organizations.get(organization)) return undefined
    const message = `The namespace ${organization} is no organization: it lacks the label davit.dev/organization=true.`
    return { reason: 'NotAnOrganization', message }
  }

  async #probe(settings: SecretsSettings, signal: AbortSignal): Promise<ProbeResults | undefined> {
    const place = connectedTo(settings)
    if (!place) return undefined
    const access = await this.#options.accounts.accessTo(settings.metadata.namespace ?? '', place)
    return await probeAccount(this.#options, access, { signal })
  }

  #verdict(
    settings: SecretsSettings,
    found: {
      externalId: string
      principal: string | undefined
      problem: { reason: SettingsStall; message: string } | undefined
      results: ProbeResults | undefined
    },
  ): ConnectionAssessment {
    const { metadata, spec, status } = settings
    return assessConnection({
      ...found,
      roleArn: spec.roleArn,
      before: status?.observedGeneration === metadata.generation ? status?.conditions : undefined,
      requireWriteOnly: this.#options.requireWriteOnly,
    })
  }

  async #list(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const { accounts, listings, random, mayStore } = this.#options
    const place = settings.status?.connected
    if (!place || !this.#times.isListingDue(settings)) return
    this.#times.listed(settings)
    const organization = settings.metadata.namespace ?? ''
    let failure: CloudError | undefined
    try {
      const access = await accounts.accessTo(organization, place)
      const listing = await listings.list(access, signal)
      await collectGarbage(this.#options, access, {
        listing,
        sweep: {
          minAgeMs: STRAY_AGE_MS,
          begin: random.fraction(),
          most: MOST_STRAYS,
          limits: { signal },
          isReferenced: (_, credential) => mayStore(organization, credential),
          failed: async (_, error) => {
            failure ??= error
            // The next one would wait as long; what one may not do is nothing about the others.
            if (error.remedy === 'retry') throw error
          },
        },
      })
      if (failure) throw failure
    } catch (error) {
      signal.throwIfAborted()
      this.#leaver.reportFailure(settings, place, error)
    }
  }

  async #leave(settings: SecretsSettings, signal: AbortSignal): Promise<ReconcileResult> {
    const { writer, listings } = this.#options
    if (!finalizersOf(settings).includes(ACCOUNT_FINALIZER)) return noRequeue()
    const againMs = await this.#leaver.disconnectAll(settings, signal)
    if (againMs !== undefined) return requeueAfter(againMs)
    listings.forget(settings.metadata.namespace ?? '')
    await writer.removeFinalizer(settings)
    return noRequeue()
  }

  /** What is new in the conditions. */
  #tell(settings: SecretsSettings, { findings, warning }: ConnectionAssessment): void {
    const before = settings.status?.conditions
    const news = (type: string) => {
      const found = findings.find((finding) => finding.type === type)
      const held = before?.find((condition) => condition.type === type)
      return found && (found.status !== held?.status || found.reason !== held.reason) ? found : undefined
    }
    const about = settingsEventTarget(settings)
    const ready = news('Ready')
    if (ready?.status === 'True')
      this.#options.events.record(about, { type: 'Normal', reason: ready.reason, message: ready.message })
    const stalled = news('Stalled')
    if (stalled?.status === 'True')
      this.#options.events.record(about, {
        type: 'Warning',
        reason: stalled.reason,
        message: stalled.message,
      })
    else if (warning && news('WriteOnly'))
      this.#options.events.record(about, {
        type: 'Warning',
        reason: warning.reason,
        message: warning.message,
      })
  }
}
