/**
 * Tells the owners by e-mail that an endpoint was disabled automatically (interface §3.1), and says in a
 * condition how that went. Mail may take long, so it goes beside the reconciler's pass.
 */
import type { ObjectMeta } from '../../api/meta.ts'
import type { WebhookEndpointStatus } from '../../api/webhook-endpoint.ts'
import { conditionsAfter, type Finding } from '../../domain/conditions.ts'
import { disabledMail } from '../../domain/disabled-mail.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Log } from '../../ports/log.ts'
import type { Mailer } from '../../ports/mailer.ts'
import type { Organizations } from '../organizations.ts'
import type { EndpointStatusWriter } from './endpoint-status.ts'

export type OwnerNoticeOptions = {
  /** Absent without mail settings. */
  mailer?: Mailer | undefined
  organizations: Organizations
  statuses: EndpointStatusWriter
  clock: Clock
  log: Log
}

const TYPE = 'OwnersNotified'
const MAX_TRIES = 5
const RETRY_MS = 60_000

export class OwnerNotice {
  readonly #options: OwnerNoticeOptions
  /** By endpoint UID: the `disabledAt` that is being told. */
  readonly #underWay = new Map<string, string>()

  constructor(options: OwnerNoticeOptions) {
    this.#options = options
  }

  /** Starts telling, if there is something that was not told. */
  look(metadata: ObjectMeta, status: WebhookEndpointStatus): void {
    const { disabledAt, disabledReason, conditions } = status
    if (disabledReason !== 'ConsecutiveFailures' || disabledAt === undefined) return
    if (conditions?.some(({ type }) => type === TYPE)) return
    if (this.#underWay.get(metadata.uid) === disabledAt) return
    this.#underWay.set(metadata.uid, disabledAt)
    void this.#tell(metadata, status, 1)
  }

  async #tell(metadata: ObjectMeta, status: WebhookEndpointStatus, tries: number): Promise<void> {
    const finding = await this.#mail(metadata, status)
    const again = finding.reason === 'MailRefused' && tries < MAX_TRIES
    try {
      if (!again) await this.#note(metadata, finding)
    } catch (error) {
      this.#options.log.warn('How owners were told could not be noted', { error, endpoint: metadata.name })
    }
    if (again) this.#options.clock.after(RETRY_MS, () => void this.#tell(metadata, status, tries + 1))
    else this.#underWay.delete(metadata.uid)
  }

  async #mail(metadata: ObjectMeta, status: WebhookEndpointStatus): Promise<Finding> {
    const { mailer, organizations } = this.#options
    const { namespace = '', name } = metadata
    const to = organizations.get(namespace)?.ownerEmails ?? []
    if (!mailer) {
      return notTold(
        'NoMailServer',
        'Nobody was told by e-mail: the operator has no mail server (DAVIT_SMTP_URL).',
      )
    }
    if (to.length === 0) {
      const message = `Nobody was told by e-mail: the namespace ${namespace} has no annotation davit.dev/owner-emails.`
      return notTold('NoOwners', message)
    }
    try {
      await mailer.send({ to, ...disabledMail({ namespace, name, ...status }) })
      return {
        type: TYPE,
        status: 'True',
        reason: 'Mailed',
        message: `${to.length} owner(s) were told by e-mail.`,
      }
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error)
      this.#options.log.warn('A mail to owners was not accepted', { namespace, endpoint: name, words })
      return notTold('MailRefused', `Nobody was told by e-mail: the mail server said: ${words}`)
    }
  }

  async #note(metadata: ObjectMeta, finding: Finding): Promise<void> {
    const { statuses, clock } = this.#options
    const { namespace = '', name, uid } = metadata
    await statuses.exclusively({ namespace, name, uid }, async (view) => {
      const status = view?.endpoint.status
      if (!view || !status || status.disabledReason !== 'ConsecutiveFailures') return
      const others = (status.conditions ?? []).filter(({ type }) => type !== TYPE)
      const at = { now: clock.now(), generation: view.endpoint.metadata.generation ?? 0 }
      const conditions = [...others, ...conditionsAfter(status.conditions, [finding], at)]
      await statuses.write(view.endpoint, { conditions })
    })
  }
}

function notTold(reason: string, message: string): Finding {
  return { type: TYPE, status: 'False', reason, message }
}
