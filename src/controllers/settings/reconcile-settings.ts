/**
 * One pass over the SecretsSettings of an organization: connect, find out what the role can do, list what the account holds, and
 * say all that in the status. Before an account is left, what nobody speaks of is removed from it.
 */
import {
  ACCOUNT_FINALIZER,
  type ConnectedAccount,
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  type SettingsStall,
} from '../../api/secrets-settings.ts'
import {
  type ConnectionVerdict,
  connectionVerdict,
  type ProbeResults,
} from '../../domain/connection-verdict.ts'
import { parseRoleArn } from '../../domain/role-arn.ts'
import { connectedTo, settingsStatus } from '../../domain/settings-status.ts'
import type { Random } from '../../ports/clock.ts'
import { CloudError } from '../../ports/cloud-error.ts'
import type { EventRecorder } from '../../ports/event-recorder.ts'
import { isApiError } from '../../ports/kubernetes.ts'
import { after, done, type Reconciler, type Result } from '../../runtime/reconcile-loop.ts'
import type { VersionedBook } from '../../runtime/versioned-book.ts'
import type { Organizations } from '../organizations.ts'
import { CheckTimes } from './check-times.ts'
import { type LeaveAccountOptions, leaveAccount } from './leave-account.ts'
import { AGAIN_AFTER_MS, type OperatorPrincipal } from './operator-principal.ts'
import { type ProbeOptions, probeAccount } from './probe-account.ts'
import { removeStrays } from './remove-strays.ts'
import { aboutSettings, finalizersOf, type SettingsWriter } from './settings-writer.ts'

export type ReconcileSettingsOptions = ProbeOptions &
  LeaveAccountOptions & {
    book: VersionedBook<SecretsSettings>
    writer: SettingsWriter
    organizations: Organizations
    principal: OperatorPrincipal
    events: EventRecorder
    random: Random
    /** Whether a resource of this name is there now, read live; one that is being deleted is. */
    exists: (organization: string, credential: string) => Promise<boolean>
    requireWriteOnly: boolean
    /** Between two looks at what the role can do, and at what the account holds. */
    checkEveryMs: number
    listEveryMs: number
  }

/** A request by REST takes less from the parameter to its resource. */
const STRAY_AGE_MS = 600_000
/** In one sweep. */
const MOST_STRAYS = 200
/** So long after its deletion an object may wait for the cloud, which holds up its namespace. */
const LAST_SWEEP_MS = 60_000
const LAST_SWEEP_AGAIN_MS = 5000
/** The watch may be behind what was read. */
const CONFLICT_AGAIN_MS = 1000

export class SettingsReconciler implements Reconciler {
  readonly #options: ReconcileSettingsOptions
  readonly #times: CheckTimes

  constructor(options: ReconcileSettingsOptions) {
    this.#options = options
    this.#times = new CheckTimes(options)
  }

  /** @param namespace the key is the organization */
  async reconcile(namespace: string, signal: AbortSignal): Promise<Result> {
    const { book, listings, writer } = this.#options
    const settings = book.get(namespace, SECRETS_SETTINGS_NAME)
    if (!settings) {
      this.#times.forget(namespace)
      listings.forget(namespace)
      return done()
    }
    try {
      if (settings.metadata.deletionTimestamp !== undefined) return await this.#leave(settings, signal)
      if (finalizersOf(settings).includes(ACCOUNT_FINALIZER)) return await this.#pass(settings, signal)
      const held = await writer.hold(settings)
      return held ? await this.#pass(held, signal) : done()
    } catch (error) {
      if (!isApiError(error, 'Conflict')) throw error
      await writer.refresh(settings)
      return after(CONFLICT_AGAIN_MS)
    }
  }

  async #pass(settings: SecretsSettings, signal: AbortSignal): Promise<Result> {
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
    if (verdict.connected) await this.#leaveOld(settings, signal)
    const facts = { settings, prefix, externalId, principal, verdict, tried: results !== undefined }
    await writer.status(settings, settingsStatus({ ...facts, now: clock.now() }))
    // Not before it is written: what was found out is lost with a write that fails.
    if (results) this.#times.checked(settings, verdict)
    this.#tell(settings, verdict)
    if (verdict.connected) await this.#list(book.get(organization, SECRETS_SETTINGS_NAME) ?? settings, signal)
    const check = !problem && settings.spec.roleArn !== undefined
    return this.#next(this.#times.nextMs(settings, { check, list: verdict.connected }), principal)
  }

  #next(ms: number | undefined, principal: string | undefined): Result {
    if (principal === undefined) return after(Math.min(AGAIN_AFTER_MS, ms ?? AGAIN_AFTER_MS))
    return ms === undefined ? done() : after(ms)
  }

  #problemOf(organization: string): { reason: SettingsStall; message: string } | undefined {
    if (this.#options.organizations.get(organization)) return undefined
    const message = `The namespace ${organization} is no organization: it lacks the label davit.dev/organization=true.`
    return { reason: 'NotAnOrganization', message }
  }

  async #probe(settings: SecretsSettings, signal: AbortSignal): Promise<ProbeResults | undefined> {
    const place = connectedTo(settings)
    if (!place) return undefined
    const access = await this.#options.accounts.of(settings.metadata.namespace ?? '', place)
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
  ): ConnectionVerdict {
    const { metadata, spec, status } = settings
    return connectionVerdict({
      ...found,
      roleArn: spec.roleArn,
      before: status?.observedGeneration === metadata.generation ? status?.conditions : undefined,
      requireWriteOnly: this.#options.requireWriteOnly,
    })
  }

  /** In the account that stays another role has come to it: what is there stays, and the sweep goes on. */
  async #leaveOld(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const before = settings.status?.connected
    const now = connectedTo(settings)
    if (!before || !now || isSamePlace(before, now)) return
    await this.#leavePlace(settings, before, signal).catch((error: unknown) =>
      this.#couldNot(settings, before, error),
    )
  }

  async #list(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const { accounts, listings, random, exists } = this.#options
    const place = settings.status?.connected
    if (!place || !this.#times.isListingDue(settings)) return
    this.#times.listed(settings)
    const organization = settings.metadata.namespace ?? ''
    let failure: CloudError | undefined
    try {
      const access = await accounts.of(organization, place)
      const listing = await listings.list(access, signal)
      await removeStrays(this.#options, access, {
        listing,
        sweep: {
          minAgeMs: STRAY_AGE_MS,
          begin: random.fraction(),
          most: MOST_STRAYS,
          limits: { signal },
          isSpokenOf: (_, credential) => exists(organization, credential),
          failed: async (_, error) => {
            failure ??= error
            // The next one would wait as long; what one may not do is nothing about the others.
            if (error.remedy === 'retry') throw error
          },
        },
      })
      if (failure) throw failure
    } catch (error) {
      this.#couldNot(settings, place, error)
    }
  }

  async #leavePlace(settings: SecretsSettings, place: ConnectedAccount, signal: AbortSignal): Promise<void> {
    const access = await this.#options.accounts.of(settings.metadata.namespace ?? '', place)
    await leaveAccount(this.#options, access, signal)
  }

  /** It ends whatever the cloud says: an account that is gone holds nothing up. */
  async #leave(settings: SecretsSettings, signal: AbortSignal): Promise<Result> {
    const { writer, clock, listings } = this.#options
    if (!finalizersOf(settings).includes(ACCOUNT_FINALIZER)) return done()
    const deletedAt = Date.parse(settings.metadata.deletionTimestamp ?? '') || clock.now()
    await this.#leaveTried(settings, signal)
    const place = settings.status?.connected
    if (place) {
      try {
        await this.#leavePlace(settings, place, signal)
      } catch (error) {
        const isBrief = error instanceof CloudError && error.remedy === 'retry'
        if (isBrief && clock.now() < deletedAt + LAST_SWEEP_MS) return after(LAST_SWEEP_AGAIN_MS)
        this.#couldNot(settings, place, error)
      }
    }
    listings.forget(settings.metadata.namespace ?? '')
    await writer.release(settings)
    return done()
  }

  /** Where nothing was put but by the first try, which may have ended half way. */
  async #leaveTried(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const connected = settings.status?.connected
    const tried = connectedTo(settings)
    if (!tried || (connected && isSamePlace(connected, tried))) return
    await this.#leavePlace(settings, tried, signal).catch((error: unknown) => {
      if (!(error instanceof CloudError)) throw error
    })
  }

  /** In a namespace that is being deleted there are no Events any more: the log has it. */
  #couldNot(settings: SecretsSettings, { roleArn, region }: ConnectedAccount, error: unknown): void {
    if (!(error instanceof CloudError)) throw error
    const message = `What the account holds could not be looked through (${roleArn}, ${region}): ${error.code}: ${error.message}`
    const { code } = error
    const organization = settings.metadata.namespace
    this.#options.log.warn('An account could not be looked through', { organization, roleArn, region, code })
    this.#options.events.record(aboutSettings(settings), { type: 'Warning', reason: 'SweepFailed', message })
  }

  /** What is new in the conditions. */
  #tell(settings: SecretsSettings, { findings, warning }: ConnectionVerdict): void {
    const before = settings.status?.conditions
    const news = (type: string) => {
      const found = findings.find((finding) => finding.type === type)
      const held = before?.find((condition) => condition.type === type)
      return found && (found.status !== held?.status || found.reason !== held.reason) ? found : undefined
    }
    const about = aboutSettings(settings)
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

function isSamePlace(a: ConnectedAccount, b: ConnectedAccount): boolean {
  return a.region === b.region && parseRoleArn(a.roleArn)?.account === parseRoleArn(b.roleArn)?.account
}
