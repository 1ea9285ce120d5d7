import type { ObjectMeta } from '../../apis/meta.ts'
import type { WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ownershipHere, type ShardOwnership } from '../../ha/ownership.ts'
import type { Organizations } from '../../kube/organizations.ts'
import { type ConditionUpdate, mergeConditions } from '../../kube/status.ts'
import type { Logger } from '../../lib/log.ts'
import type { Mailer } from '../../lib/mail.ts'
import type { MailMetrics } from '../../lib/metrics.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { counted, withPeriod } from '../../lib/text.ts'
import { type Clock, exponentialMs, sleep } from '../../lib/time.ts'
import type { EndpointDirectory, EndpointIdentity, EndpointStatusWriter } from './directory.ts'
import { disabledText } from './plan.ts'

/**
 * Mails the owners when an endpoint is disabled automatically (interface §3.1), and reports in a condition how that went.
 * Mail may take long, so it runs apart from the reconciler. Rejected mail is tried again for a week, by the next process
 * as well.
 */

type DisabledEndpoint = Omit<EndpointIdentity, 'uid'> &
  Partial<Pick<WebhookEndpointStatus, 'consecutiveFailures' | 'failingSince' | 'disabledAt'>>

/** @param heldMs how long deliveries of a disabled endpoint are kept */
export function disabledMail(endpoint: DisabledEndpoint, heldMs: number): { subject: string; text: string } {
  const { namespace, name, consecutiveFailures = 0, failingSince, disabledAt } = endpoint
  return {
    subject: `Webhook endpoint ${name} in ${namespace} was disabled`,
    text: [
      `Davit disabled the webhook endpoint whe_${name} in the organization ${namespace}${disabledAt ? ` at ${disabledAt}` : ''}.`,
      '',
      disabledText({ consecutiveFailures, failingSince }),
      heldText(disabledAt, heldMs),
      'Events that are published while the endpoint is disabled will not be delivered to it.',
      '',
      'To see why the attempts failed, run:',
      `  kubectl -n ${namespace} get webhookdeliveries --field-selector spec.endpoint=${name},status.state=exhausted -o wide`,
      'After you have fixed the receiver, enable the endpoint:',
      `  kubectl -n ${namespace} annotate webhookendpoint ${name} --overwrite davit.dev/enable-requested-at="$(date -u +%FT%TZ)"`,
      '',
    ].join('\n'),
  }
}

function heldText(disabledAt: string | undefined, heldMs: number): string {
  if (disabledAt === undefined)
    return 'When you enable the endpoint, Davit resumes its unfinished deliveries.'
  const until = new Date(Date.parse(disabledAt) + heldMs).toISOString()
  return `If you enable the endpoint by ${until}, Davit resumes its unfinished deliveries. After that, Davit cancels them.`
}

export type DisabledNotifierOptions = {
  /** Absent without mail settings. */
  mailer?: Mailer | undefined
  organizations: Organizations
  directory: EndpointDirectory
  statuses: EndpointStatusWriter
  /** The replica that owns the endpoint's shard notifies. */
  shards: ShardOwnership
  /** How long deliveries of a disabled endpoint are kept. */
  heldMs: number
  clock: Clock
  log: Logger
  metrics: MailMetrics
}

type DisabledNotice = EndpointIdentity & { disabledAt: string }

const TYPE = 'OwnersNotified'
const MAILED = 'Mailed'
const MAIL_REFUSED = 'MailRefused'
const RESULTS: Readonly<Record<string, Parameters<MailMetrics['mailed']>[0]>> = {
  Mailed: 'mailed',
  NoMailServer: 'no_mail_server',
  NoOwners: 'no_owners',
}
const RETRIES = { firstMs: 60_000, longestMs: 3_600_000 }
const GIVE_UP_AFTER_MS = 7 * 24 * 3_600_000
const STATUS_RETRY_MS = 5000
/** Organizations take turns. */
const MAILS_AT_A_TIME = 4

export class DisabledNotifier {
  readonly #options: DisabledNotifierOptions
  /** By endpoint UID: the `disabledAt` of the running notification. */
  readonly #inProgress = new Map<string, string>()
  readonly #running = new Set<Promise<void>>()
  readonly #mails = new Semaphore({ atOnce: MAILS_AT_A_TIME })
  readonly #stopping = new AbortController()
  readonly #withoutOwnership = ownershipHere()

  constructor(options: DisabledNotifierOptions) {
    this.#options = options
  }

  /** Starts a notification unless it was sent, is running, or is too late. */
  notifyIfDisabled({ namespace = '', name, uid }: ObjectMeta, status: WebhookEndpointStatus): void {
    const { disabledAt, disabledReason, conditions } = status
    if (disabledReason !== 'ConsecutiveFailures' || disabledAt === undefined) return
    const isTried = conditions?.some(({ type }) => type === TYPE)
    if (isNotified(status) || (isTried && this.#isTooLate(disabledAt))) return
    if (this.#inProgress.get(uid) === disabledAt || this.#stopping.signal.aborted) return
    this.#inProgress.set(uid, disabledAt)
    // It outlasts the pass that starts it, and checks by itself which replica owns the endpoint.
    const running = this.#withoutOwnership(() => this.#notify({ namespace, name, uid, disabledAt })).finally(
      () => {
        this.#running.delete(running)
        if (this.#inProgress.get(uid) === disabledAt) this.#inProgress.delete(uid)
      },
    )
    this.#running.add(running)
  }

  /** Starts no more mails. Resolves when the running ones are sent and recorded. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#running)
  }

  async #notify(notice: DisabledNotice): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#stopping
    for (let failures = 1; !signal.aborted; failures += 1) {
      const status = this.#statusOf(notice)
      // The new owner of its shard notifies: its first pass over the endpoint starts that.
      if (!status || isNotified(status) || !this.#isOurs(notice)) return
      const condition = await this.#mail(notice, status)
      this.#options.metrics.mailed(RESULTS[condition.reason] ?? 'refused')
      await this.#record(notice, condition)
      if (condition.reason !== MAIL_REFUSED || this.#isTooLate(notice.disabledAt)) return
      await sleep(clock, exponentialMs(failures, RETRIES), signal)
    }
  }

  /** Undefined once the endpoint is enabled again or deleted. */
  #statusOf(notice: DisabledNotice): WebhookEndpointStatus | undefined {
    const status = this.#options.directory.find(notice)?.endpoint.status
    const isCurrent =
      status?.disabledReason === 'ConsecutiveFailures' && status.disabledAt === notice.disabledAt
    return isCurrent ? status : undefined
  }

  #isOurs({ uid }: DisabledNotice): boolean {
    return this.#options.shards.owns(shardOf(uid))
  }

  #isTooLate(disabledAt: string): boolean {
    return this.#options.clock.now() - Date.parse(disabledAt) > GIVE_UP_AFTER_MS
  }

  async #mail({ namespace, name }: DisabledNotice, status: WebhookEndpointStatus): Promise<ConditionUpdate> {
    const { mailer, organizations, heldMs } = this.#options
    const to = organizations.get(namespace)?.ownerEmails ?? []
    if (!mailer) {
      const message =
        'No email was sent because no mail server is configured. Ask your cluster operator to set DAVIT_SMTP_URL.'
      return notNotified('NoMailServer', message)
    }
    if (to.length === 0) {
      const message = `No email was sent because the namespace ${namespace} does not have the annotation davit.dev/owner-emails. Set the annotation to receive emails in the future.`
      return notNotified('NoOwners', message)
    }
    try {
      const send = () => mailer.send({ to, ...disabledMail({ namespace, name, ...status }, heldMs) })
      const accepted = await this.#mails.run(send, { group: namespace })
      const owners =
        accepted === to.length ? counted(accepted, 'owner') : `${accepted} of ${to.length} owners`
      return { type: TYPE, status: 'True', reason: MAILED, message: `Davit notified ${owners} by email.` }
    } catch (error) {
      const cause = error instanceof Error ? error.message : String(error)
      const fields = { namespace, endpoint: name, error: cause }
      this.#options.log.warn('owner_mail_failed', 'failed to send an email to owners', fields)
      return notNotified(
        MAIL_REFUSED,
        `No email has been sent yet: ${withPeriod(cause)} Davit keeps trying until a week after the endpoint was disabled.`,
      )
    }
  }

  /** Retries until it is stored or the process stops: otherwise the next process mails again. */
  async #record(notice: DisabledNotice, condition: ConditionUpdate): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#stopping
    for (;;) {
      try {
        return await this.#write(notice, condition)
      } catch (error) {
        const fields = { error, endpoint: notice.name }
        log.warn('notification_not_recorded', 'failed to record the notification of owners', fields)
        if (signal.aborted) return
        await sleep(clock, STATUS_RETRY_MS, signal)
      }
    }
  }

  async #write(notice: DisabledNotice, condition: ConditionUpdate): Promise<void> {
    const { statuses, clock } = this.#options
    await statuses.exclusively(notice, async (view) => {
      // Sent mail is recorded in any case, so that no other replica sends it again.
      if (!view || !(this.#isOurs(notice) || condition.reason === MAILED)) return
      await statuses.write(view, ({ endpoint: { metadata } }) => {
        const status = this.#statusOf(notice)
        if (!status) return undefined
        const others = (status.conditions ?? []).filter(({ type }) => type !== TYPE)
        const at = { now: clock.now(), generation: metadata.generation ?? 0 }
        return { conditions: [...others, ...mergeConditions(status.conditions, [condition], at)] }
      })
    })
  }
}

/** Also if another try is pointless. */
function isNotified({ conditions }: WebhookEndpointStatus): boolean {
  return conditions?.some(({ type, reason }) => type === TYPE && reason !== MAIL_REFUSED) ?? false
}

function notNotified(reason: string, message: string): ConditionUpdate {
  return { type: TYPE, status: 'False', reason, message }
}
