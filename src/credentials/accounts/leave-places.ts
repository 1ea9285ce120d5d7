/** When and how long the accounts that settings speak of are left: it ends whatever the cloud says. */
import type { ConnectedAccount, SecretsSettings } from '../../apis/secrets-settings.ts'
import type { EventRecorder } from '../../kube/event-recorder.ts'
import { sleep } from '../../lib/sleep.ts'
import { parseRoleArn } from '../aws/role-arn.ts'
import { CloudError } from '../cloud-error.ts'
import { type DisconnectOptions, disconnectAccount } from './disconnect.ts'
import { connectedTo } from './settings-status.ts'
import { settingsEventTarget } from './status.ts'

export type AccountDisconnectorOptions = DisconnectOptions & { events: EventRecorder }

/** So long an account that is asked too much is tried again. Deleted settings wait for it, and hold up their namespace. */
const TRY_MS = 60_000
const TRY_AGAIN_MS = 5000
/** Of an account that nobody may be behind. */
const NO_ANSWERS: ReadonlySet<string> = new Set(['Unreachable', 'TimedOut'])

type Leaving = { signal: AbortSignal; leftForMs: number }

export class AccountDisconnector {
  readonly #options: AccountDisconnectorOptions

  constructor(options: AccountDisconnectorOptions) {
    this.#options = options
  }

  /** In the account that stays another role has come to it: what is there stays, and the sweep goes on. */
  async disconnectPrevious(settings: SecretsSettings, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const before = settings.status?.connected
    const now = connectedTo(settings)
    if (!before || !now || isSamePlace(before, now)) return
    const begin = clock.monotonic()
    for (;;) {
      const leftForMs = clock.monotonic() - begin
      try {
        return await this.#leave(settings, before, { signal, leftForMs })
      } catch (error) {
        signal.throwIfAborted()
        if (!isTransient(error) || clock.monotonic() + TRY_AGAIN_MS > begin + TRY_MS)
          return this.reportFailure(settings, before, error)
      }
      await sleep(clock, TRY_AGAIN_MS, signal)
    }
  }

  /** Of settings that are deleted. @returns when to come again, if anything is left to try */
  async disconnectAll(settings: SecretsSettings, signal: AbortSignal): Promise<number | undefined> {
    const { clock } = this.#options
    const deletedAt = Date.parse(settings.metadata.deletionTimestamp ?? '') || clock.now()
    const leaving = { signal, leftForMs: Math.max(0, clock.now() - deletedAt) }
    const { connected } = settings.status ?? {}
    const tried = connectedTo(settings)
    const isOver = clock.now() >= deletedAt + TRY_MS
    const triedAgain =
      tried &&
      !(connected && isSamePlace(connected, tried)) &&
      (await this.#leaveTried(settings, tried, leaving))
    try {
      if (connected) await this.#leave(settings, connected, leaving)
    } catch (error) {
      signal.throwIfAborted()
      if (connected && (!isTransient(error) || isOver)) this.reportFailure(settings, connected, error)
      else return TRY_AGAIN_MS
    }
    return triedAgain && !isOver ? TRY_AGAIN_MS : undefined
  }

  /** In a namespace that is being deleted there are no Events any more: the log has it. @throws what is no CloudError */
  reportFailure(settings: SecretsSettings, { roleArn, region }: ConnectedAccount, error: unknown): void {
    if (!(error instanceof CloudError)) throw error
    const { code } = error
    const message = `What the account holds could not be looked through (${roleArn}, ${region}): ${code}: ${error.message}`
    const organization = settings.metadata.namespace
    this.#options.log.warn('An account could not be looked through', { organization, roleArn, region, code })
    this.#options.events.record(settingsEventTarget(settings), {
      type: 'Warning',
      reason: 'SweepFailed',
      message,
    })
  }

  /** Where nothing was put but by the first try, which may have ended half way. @returns whether to try again */
  async #leaveTried(settings: SecretsSettings, tried: ConnectedAccount, leaving: Leaving): Promise<boolean> {
    try {
      // Nothing is saved in an account that was never connected.
      await this.#leave(settings, tried, { ...leaving, leftForMs: Number.POSITIVE_INFINITY })
      return false
    } catch (error) {
      leaving.signal.throwIfAborted()
      if (!(error instanceof CloudError)) throw error
      return isTransient(error) && !NO_ANSWERS.has(error.code)
    }
  }

  async #leave(settings: SecretsSettings, place: ConnectedAccount, leaving: Leaving): Promise<void> {
    const access = await this.#options.accounts.accessTo(settings.metadata.namespace ?? '', place)
    await disconnectAccount(this.#options, access, leaving)
  }
}

function isTransient(error: unknown): boolean {
  return error instanceof CloudError && error.remedy === 'retry'
}

function isSamePlace(a: ConnectedAccount, b: ConnectedAccount): boolean {
  return a.region === b.region && parseRoleArn(a.roleArn)?.account === parseRoleArn(b.roleArn)?.account
}
