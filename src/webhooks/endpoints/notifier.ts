import type { ObjectMeta } from '../../apis/meta.ts'
import type { WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { type ShardOwnership, withoutOwnership } from '../../ha/ownership.ts'
import type { Organizations } from '../../kube/organizations.ts'
import { type ConditionUpdate, mergeConditions } from '../../kube/status.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { Mailer } from '../../lib/mail.ts'
import type { MailMetrics } from '../../lib/metrics.ts'
import { sleep } from '../../lib/sleep.ts'
import type { EndpointDirectory, EndpointStatusWriter } from './directory.ts'

/** The mail that tells owners of automatic disabling. */
export type DisabledEndpoint = {
  namespace: string
  name: string
  consecutiveFailures?: number
  failingSince?: string | undefined
  disabledAt?: string | undefined
}

export function disabledMail(endpoint: DisabledEndpoint): { subject: string; text: string } {
  const { namespace, name, consecutiveFailures = 0, failingSince, disabledAt } = endpoint
  return {
    subject: `Webhook endpoint ${name} of ${namespace} was disabled`,
    text: [
      `The webhook endpoint whe_${name} of the organization ${namespace} was disabled automatically${disabledAt ? ` at ${disabledAt}` : ''}.`,
      '',
      `${consecutiveFailures} deliveries in a row used up all their attempts${failingSince ? `, the first of them at ${failingSince}` : ''}.`,
      'Deliveries that had not ended are held for seven days and go on when the endpoint is enabled.',
      'Events that come while it is disabled are not delivered to it.',
      '',
      'See why the attempts failed:',
      `  kubectl -n ${namespace} get webhookdeliveries --field-selector spec.endpoint=${name},status.state=exhausted -o wide`,
      'When the receiver is mended, enable the endpoint:',
      `  kubectl -n ${namespace} annotate webhookendpoint ${name} --overwrite davit.dev/enable-requested-at="$(date -u +%FT%TZ)"`,
      '',
    ].join('\n'),
  }
}

/**
 * Tells the owners by e-mail that an endpoint was disabled automatically (interface §3.1), and says in a
 * condition how that went. Mail may take long, so it goes beside the reconciler's pass. A mail server that does
 * not take it is asked again for a week, by the next process as well.
 */

export type DisabledNotifierOptions = {
  /** Absent without mail settings. */
  mailer?: Mailer | undefined
  organizations: Organizations
  directory: EndpointDirectory
  statuses: EndpointStatusWriter
  /** Whoever has the endpoint's shard tells its owners. */
  shards: ShardOwnership
  clock: Clock
  log: Logger
  metrics: MailMetrics
}

/** What is to be told: the automatic disabling of this endpoint at that time. */
type DisabledNotice = { namespace: string; name: string; uid: string; disabledAt: string }

const TYPE = 'OwnersNotified'
const MAILED = 'Mailed'
const MAIL_REFUSED = 'MailRefused'
const RESULTS: Readonly<Record<string, Parameters<MailMetrics['mailed']>[0]>> = {
  Mailed: 'mailed',
  NoMailServer: 'no-mail-server',
  NoOwners: 'no-owners',
}
const FIRST_RETRY_MS = 60_000
const LONGEST_RETRY_MS = 3_600_000
const GIVE_UP_AFTER_MS = 7 * 24 * 3_600_000
const NOTE_RETRY_MS = 5000

export class DisabledNotifier {
  readonly #options: DisabledNotifierOptions
  /** By endpoint UID: the `disabledAt` that is being told. */
  readonly #underWay = new Map<string, string>()
  readonly #telling = new Set<Promise<void>>()
  readonly #ending = new AbortController()
  readonly #aside = withoutOwnership()

  constructor(options: DisabledNotifierOptions) {
    this.#options = options
  }

  /** Starts telling, if there is something that was not told. */
  notifyIfDisabled({ namespace = '', name, uid }: ObjectMeta, status: WebhookEndpointStatus): void {
    const { disabledAt, disabledReason, conditions } = status
    if (disabledReason !== 'ConsecutiveFailures' || disabledAt === undefined) return
    const isTried = conditions?.some(({ type }) => type === TYPE)
    if (isNotified(status) || (isTried && this.#isTooLate(disabledAt))) return
    if (this.#underWay.get(uid) === disabledAt || this.#ending.signal.aborted) return
    this.#underWay.set(uid, disabledAt)
    // It outlasts the pass that begins it, and asks by itself whose the endpoint is.
    const telling = this.#aside(() => this.#tell({ namespace, name, uid, disabledAt })).finally(() => {
      this.#telling.delete(telling)
      if (this.#underWay.get(uid) === disabledAt) this.#underWay.delete(uid)
    })
    this.#telling.add(telling)
  }

  /** No mail is begun any more. Resolves when those under way are sent and noted. */
  async stop(): Promise<void> {
    this.#ending.abort()
    await Promise.all(this.#telling)
  }

  async #tell(news: DisabledNotice): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#ending
    for (let wait = FIRST_RETRY_MS; !signal.aborted; wait = Math.min(LONGEST_RETRY_MS, wait * 2)) {
      const status = this.#statusOf(news)
      // Whoever has its shard now tells it: a pass over the endpoint there begins with that.
      if (!status || isNotified(status) || !this.#isOurs(news)) return
      const finding = await this.#mail(news, status)
      this.#options.metrics.mailed(RESULTS[finding.reason] ?? 'refused')
      await this.#note(news, finding)
      if (finding.reason !== MAIL_REFUSED || this.#isTooLate(news.disabledAt)) return
      await sleep(clock, wait, signal)
    }
  }

  /** Undefined once the endpoint is enabled again, or gone: then there is nothing to tell. */
  #statusOf(news: DisabledNotice): WebhookEndpointStatus | undefined {
    const status = this.#options.directory.find(news)?.endpoint.status
    const stands = status?.disabledReason === 'ConsecutiveFailures' && status.disabledAt === news.disabledAt
    return stands ? status : undefined
  }

  #isOurs({ uid }: DisabledNotice): boolean {
    return this.#options.shards.owns(shardOf(uid))
  }

  #isTooLate(disabledAt: string): boolean {
    return this.#options.clock.now() - Date.parse(disabledAt) > GIVE_UP_AFTER_MS
  }

  async #mail({ namespace, name }: DisabledNotice, status: WebhookEndpointStatus): Promise<ConditionUpdate> {
    const { mailer, organizations } = this.#options
    const to = organizations.get(namespace)?.ownerEmails ?? []
    if (!mailer) {
      return notNotified(
        'NoMailServer',
        'Nobody was told by e-mail: the operator has no mail server (DAVIT_SMTP_URL).',
      )
    }
    if (to.length === 0) {
      const message = `Nobody was told by e-mail: the namespace ${namespace} has no annotation davit.dev/owner-emails.`
      return notNotified('NoOwners', message)
    }
    try {
      const told = await mailer.send({ to, ...disabledMail({ namespace, name, ...status }) })
      const owners = told === to.length ? `${told} owner(s)` : `${told} of ${to.length} owners`
      return {
        type: TYPE,
        status: 'True',
        reason: MAILED,
        message: `${owners} were told by e-mail.`,
      }
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error)
      this.#options.log.warn('A mail to owners was not accepted', { namespace, endpoint: name, words })
      return notNotified(MAIL_REFUSED, `Nobody was told by e-mail yet: ${words}. It is tried again.`)
    }
  }

  /** Goes on until it is stored, or the process ends: what is not noted is told again by the next one. */
  async #note(news: DisabledNotice, finding: ConditionUpdate): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#ending
    for (;;) {
      try {
        return await this.#write(news, finding)
      } catch (error) {
        log.warn('How owners were told could not be noted', { error, endpoint: news.name })
        if (signal.aborted) return
        await sleep(clock, NOTE_RETRY_MS, signal)
      }
    }
  }

  async #write(news: DisabledNotice, finding: ConditionUpdate): Promise<void> {
    const { statuses, clock } = this.#options
    await statuses.exclusively(news, async (view) => {
      // That they were told is said in any case, so that nobody tells them again.
      if (!view || !(this.#isOurs(news) || finding.reason === MAILED)) return
      await statuses.write(view, ({ endpoint: { metadata } }) => {
        const status = this.#statusOf(news)
        if (!status) return undefined
        const others = (status.conditions ?? []).filter(({ type }) => type !== TYPE)
        const at = { now: clock.now(), generation: metadata.generation ?? 0 }
        return { conditions: [...others, ...mergeConditions(status.conditions, [finding], at)] }
      })
    })
  }
}

/** Or it is of no use to try again. */
function isNotified({ conditions }: WebhookEndpointStatus): boolean {
  return conditions?.some(({ type, reason }) => type === TYPE && reason !== MAIL_REFUSED) ?? false
}

function notNotified(reason: string, message: string): ConditionUpdate {
  return { type: TYPE, status: 'False', reason, message }
}
