import { LRUCache } from 'lru-cache'
import { type ObjectMeta, OWNER_EMAILS_ANNOTATION } from '../../apis/meta.ts'
import type { OwnerEmail, WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { ownershipHere, type ShardOwnership } from '../../ha/ownership.ts'
import type { Organizations } from '../../kube/organizations.ts'
import { type ConditionUpdate, mergeConditions, sameJson } from '../../kube/status.ts'
import type { Logger } from '../../lib/log.ts'
import type { Mailer, MailResult } from '../../lib/mail.ts'
import type { MailMetrics } from '../../lib/metrics.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { type Clock, exponentialMs, sleep } from '../../lib/time.ts'
import type { EndpointDirectory, EndpointIdentity, EndpointStatusWriter } from './directory.ts'
import {
  finalAfter,
  isFinalReason,
  isOpen,
  MAILED,
  mergeFinal,
  type NoticeState,
  noticeStatus,
  OWNERS_NOTIFIED,
  reachableRecipients,
} from './notice.ts'
import { conditionOf, disabledText } from './plan.ts'

/**
 * Mails the owners when an endpoint is disabled automatically (interface §3.1), and reports in a condition how that went.
 * Mail may take long, so it runs apart from the reconciler. Mail that was not accepted is tried again for a week, by the next process
 * as well, for those owners who are open (`notice.ts`).
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

type NoticeRecord = {
  /** What the status is to say. @param stored the final results that it has */
  describe(stored: readonly OwnerEmail[]): { condition: ConditionUpdate; ownerEmails: OwnerEmail[] | null }
  /** Something was accepted or rejected, which no other replica may repeat. */
  isAnswered: boolean
}

/** What this process knows of the owners. */
type KnownResults = {
  /** Also in the status, but an API server with an older CRD does not keep it. */
  final: OwnerEmail[]
  /** Permanent rejections. Those by the server's configuration are not final, but are not worth another email of this process. */
  rejected: MailResult['refused']
}

const RETRIES = { firstMs: 60_000, longestMs: 3_600_000 }
const GIVE_UP_AFTER_MS = 7 * 24 * 3_600_000
const STATUS_RETRY_MS = 5000
/** Organizations take turns. */
const MAILS_AT_A_TIME = 4
/** Endpoints whose notification has ended in this process. */
const MAX_ENDED = 10_000

export class DisabledNotifier {
  readonly #options: DisabledNotifierOptions
  /** By endpoint UID: the `disabledAt` of the running notification. */
  readonly #inProgress = new Map<string, string>()
  /** By endpoint UID: the notification that has ended here, although its condition alone does not say so. */
  readonly #ended = new LRUCache<string, string>({ max: MAX_ENDED })
  readonly #running = new Set<Promise<void>>()
  readonly #mails = new Semaphore({ atOnce: MAILS_AT_A_TIME })
  readonly #stopping = new AbortController()
  readonly #withoutOwnership = ownershipHere()

  constructor(options: DisabledNotifierOptions) {
    this.#options = options
  }

  /** Starts a notification unless it has ended, is running, or is too late. */
  notifyIfDisabled({ namespace = '', name, uid }: ObjectMeta, status: WebhookEndpointStatus): void {
    const { disabledAt, disabledReason } = status
    if (disabledReason !== 'ConsecutiveFailures' || disabledAt === undefined) return
    const isTried = reasonIn(status) !== undefined
    if (isNotified(status) || (isTried && this.#isTooLate(disabledAt))) return
    if (this.#inProgress.get(uid) === disabledAt || this.#stopping.signal.aborted) return
    const notice = { namespace, name, uid, disabledAt }
    if (this.#ended.get(uid) === this.#keyOf(notice)) return
    this.#inProgress.set(uid, disabledAt)
    // It outlasts the pass that starts it, and checks by itself which replica owns the endpoint.
    const running = this.#withoutOwnership(() => this.#notify(notice)).finally(() => {
      this.#running.delete(running)
      if (this.#inProgress.get(uid) === disabledAt) this.#inProgress.delete(uid)
    })
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
    let known: KnownResults = { final: [], rejected: [] }
    for (let failures = 1; !signal.aborted; failures += 1) {
      const status = this.#statusOf(notice)
      // The new owner of its shard notifies: its first pass over the endpoint starts that.
      if (!status || isNotified(status) || !this.#isOurs(notice)) return
      const final = mergeFinal(status.ownerEmails ?? [], known.final)
      const key = this.#keyOf(notice)
      const found = await this.#next(notice, status, { ...known, final })
      known = found
      await this.#record(notice, found)
      // The owners may have changed meanwhile, and the pass over that change found this notification running.
      if (key !== this.#keyOf(notice)) continue
      if (!found.isOpen) {
        this.#ended.set(notice.uid, key)
        return
      }
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

  /** Other owners are another notification. */
  #keyOf({ namespace, disabledAt }: DisabledNotice): string {
    return [disabledAt, ...this.#ownersOf(namespace)].join(' ')
  }

  #ownersOf(namespace: string): readonly string[] {
    return this.#options.organizations.get(namespace)?.ownerEmails ?? []
  }

  /** Sends the email to the owners who are open, if there are any. */
  async #next(
    notice: DisabledNotice,
    status: WebhookEndpointStatus,
    { final: before, rejected: rejectedBefore }: KnownResults,
  ): Promise<NoticeRecord & KnownResults & { isOpen: boolean }> {
    const { mailer, metrics } = this.#options
    const { namespace, uid, disabledAt } = notice
    const owners = this.#ownersOf(namespace)
    const rejected = rejectedBefore.filter(({ address }) => owners.includes(address))
    const to = reachableRecipients({ uid, owners }, before, rejected)
    if (!mailer || (owners.length === 0 && before.length === 0)) {
      metrics.mailed(mailer ? 'no_owners' : 'no_mail_server')
      const condition = mailer ? noOwners(namespace) : NO_MAIL_SERVER
      const describe = () => ({ condition, ownerEmails: null })
      return { describe, isAnswered: false, final: before, rejected, isOpen: false }
    }
    const result = to.length === 0 ? NOTHING : await this.#mail(mailer, notice, status, to)
    const final = finalAfter(uid, before, result)
    const state: NoticeState = {
      uid,
      owners,
      final,
      refused: [...rejected, ...result.refused],
      isTooLate: this.#isTooLate(disabledAt),
    }
    if (to.length > 0) metrics.mailed(result.accepted.length > 0 ? 'mailed' : 'refused')
    const isAnswered = final.length > before.length
    const describe: NoticeRecord['describe'] = (stored) =>
      noticeStatus({ ...state, final: mergeFinal(stored, final) })
    const lasting = state.refused.filter(({ isPermanent }) => isPermanent)
    return { describe, isAnswered, final, rejected: lasting, isOpen: isOpen(state) }
  }

  async #mail(
    mailer: Mailer,
    { namespace, name }: DisabledNotice,
    status: WebhookEndpointStatus,
    to: string[],
  ): Promise<MailResult> {
    const send = () =>
      mailer.send({ to, ...disabledMail({ namespace, name, ...status }, this.#options.heldMs) })
    const result = await this.#mails.run(send, { group: namespace })
    for (const [reason, reply] of new Map(result.refused.map(({ reason, reply }) => [reason, reply]))) {
      const fields = { namespace, endpoint: name, error: reason, reply }
      this.#options.log.warn('owner_mail_failed', 'failed to send an email to owners', fields)
    }
    return result
  }

  /** Retries until it is stored or the process stops: otherwise the next process mails again. */
  async #record(notice: DisabledNotice, record: NoticeRecord): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#stopping
    for (;;) {
      try {
        return await this.#write(notice, record)
      } catch (error) {
        const fields = { error, endpoint: notice.name }
        log.warn('notification_not_recorded', 'failed to record the notification of owners', fields)
        if (signal.aborted) return
        await sleep(clock, STATUS_RETRY_MS, signal)
      }
    }
  }

  async #write(notice: DisabledNotice, { describe, isAnswered }: NoticeRecord): Promise<void> {
    const { statuses, clock } = this.#options
    await statuses.exclusively(notice, async (view) => {
      // Sent mail is recorded in any case, so that no other replica sends it again.
      if (!view || !(this.#isOurs(notice) || isAnswered)) return
      await statuses.write(view, ({ endpoint: { metadata } }) => {
        const status = this.#statusOf(notice)
        // Another replica may have reached everyone meanwhile.
        if (!status || reasonIn(status) === MAILED) return undefined
        const before = status.conditions ?? []
        const { condition, ownerEmails } = describe(status.ownerEmails ?? [])
        const others = before.filter(({ type }) => type !== OWNERS_NOTIFIED)
        const at = { now: clock.now(), generation: metadata.generation ?? 0 }
        const conditions = [...others, ...mergeConditions(before, [condition], at)]
        const isSame = sameJson(conditions, before) && sameJson(ownerEmails, status.ownerEmails ?? null)
        return isSame ? undefined : { conditions, ownerEmails }
      })
    })
  }
}

const NOTHING: MailResult = { accepted: [], refused: [] }

function reasonIn(status: WebhookEndpointStatus): string | undefined {
  return conditionOf(status, OWNERS_NOTIFIED)?.reason
}

/** Also if another try is pointless. */
function isNotified(status: WebhookEndpointStatus): boolean {
  return isFinalReason(reasonIn(status) ?? '')
}

const NO_MAIL_SERVER: ConditionUpdate = {
  type: OWNERS_NOTIFIED,
  status: 'False',
  reason: 'NoMailServer',
  message:
    'No email was sent because no mail server is configured. Ask your cluster operator to set DAVIT_SMTP_URL.',
}

function noOwners(namespace: string): ConditionUpdate {
  return {
    type: OWNERS_NOTIFIED,
    status: 'False',
    reason: 'NoOwners',
    message: `No email was sent because the namespace ${namespace} does not have the annotation ${OWNER_EMAILS_ANNOTATION}. To receive emails in the future, set the annotation to the owners' addresses.`,
  }
}
