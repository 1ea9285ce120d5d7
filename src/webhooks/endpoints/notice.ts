import { createHash } from 'node:crypto'
import { OWNER_EMAILS_ANNOTATION } from '../../apis/meta.ts'
import { MAX_OWNERS, type OwnerEmail } from '../../apis/webhook-endpoint.ts'
import type { ConditionUpdate } from '../../kube/status.ts'
import type { MailResult } from '../../lib/mail.ts'
import { counted, listed, withPeriod } from '../../lib/text.ts'

/**
 * What is known about the email to the owners of a disabled endpoint, what the condition says about it, and to whom Davit sends it next.
 * An owner who got the email, or whose address was rejected for good, is final and in the status, so that no other process repeats that.
 */

export const OWNERS_NOTIFIED = 'OwnersNotified'

/** Every owner got the email. */
export const MAILED = 'Mailed'

/** Nothing more is to be sent, whatever else the status says. */
const FINAL_REASONS: ReadonlySet<string> = new Set([MAILED, 'NoMailServer', 'NoOwners'])

export function isFinalReason(reason: string): boolean {
  return FINAL_REASONS.has(reason)
}

/** One endpoint and its owners. */
export type Recipients = {
  /** UID of the endpoint. */
  uid: string
  /** Addresses, in the order of the annotation. */
  owners: readonly string[]
}

function digestOf(uid: string, address: string): string {
  return createHash('sha256').update(`${uid} ${address}`).digest('hex').slice(0, 16)
}

/** The owners without a final result. */
function openRecipients({ uid, owners }: Recipients, final: readonly OwnerEmail[]): string[] {
  const known = new Set(final.map(({ digest }) => digest))
  return [...new Set(owners)].filter((address) => !known.has(digestOf(uid, address)))
}

/** The final results after another email. Those of the server's configuration are not final: a setting may change. */
export function finalAfter(
  uid: string,
  before: readonly OwnerEmail[],
  { accepted, refused }: MailResult,
): OwnerEmail[] {
  const lasting = refused.filter(({ isPermanent, scope }) => isPermanent && scope === 'email')
  return mergeFinal(before, [
    ...accepted.map((address) => ({ digest: digestOf(uid, address) })),
    ...lasting.map(({ address, reason }) => ({ digest: digestOf(uid, address), rejection: reason })),
  ])
}

/** Of two lists, such as that of the status and that of this process. The newest are kept beyond the limit. */
export function mergeFinal(one: readonly OwnerEmail[], other: readonly OwnerEmail[]): OwnerEmail[] {
  const byDigest = new Map([...one, ...other].map((email) => [email.digest, email]))
  return [...byDigest.values()].slice(-MAX_OWNERS)
}

export type NoticeState = Recipients & {
  final: readonly OwnerEmail[]
  /** Why the open recipients have no email yet. */
  refused: MailResult['refused']
  /** A week after the endpoint was disabled. */
  isTooLate: boolean
}

/** The owners whom another email may reach. */
export function reachableRecipients(
  recipients: Recipients,
  final: readonly OwnerEmail[],
  refused: MailResult['refused'],
): string[] {
  const rejected = new Set(refused.filter(({ isPermanent }) => isPermanent).map(({ address }) => address))
  return openRecipients(recipients, final).filter((address) => !rejected.has(address))
}

/** Whether another email may reach someone. */
export function isOpen({ refused, isTooLate, final, ...recipients }: NoticeState): boolean {
  return !isTooLate && reachableRecipients(recipients, final, refused).length > 0
}

/** What the status has of it; a field that is not needed any more is null. */
export function noticeStatus(state: NoticeState): {
  condition: ConditionUpdate
  ownerEmails: OwnerEmail[] | null
} {
  const condition = noticeCondition(state)
  const isNeeded = !isFinalReason(condition.reason) && state.final.length > 0
  return { condition, ownerEmails: isNeeded ? [...state.final] : null }
}

function noticeCondition(state: NoticeState): ConditionUpdate {
  const { final, uid, owners } = state
  const open = openRecipients({ uid, owners }, final)
  const mailed = final.filter(({ rejection }) => rejection === undefined).length
  const total = final.length + open.length
  if (mailed === total && mailed > 0)
    return notified('True', MAILED, `Davit notified ${counted(mailed, 'owner')} by email.`)
  const why = causes(state)
  const next = outlook(state)
  if (mailed > 0)
    return notified(
      'True',
      'SomeOwnersMailed',
      [`Davit notified ${mailed} of ${total} owners by email.`, ...why, next].join(' '),
    )
  const fact = isOpen(state) ? 'No email has been sent yet' : 'No email was sent'
  const [only, ...others] = why
  const text =
    only !== undefined && others.length === 0 && !only.includes(OWNER_EMAILS_ANNOTATION)
      ? [`${fact}: ${only}`, next]
      : [`${fact}.`, ...why, next]
  return notified('False', 'MailRefused', text.join(' '))
}

function outlook(state: NoticeState): string {
  if (isOpen(state)) return 'Davit will keep trying for up to a week after the endpoint was disabled.'
  if (openRecipients(state, state.final).length === 0 || state.isTooLate) return 'Davit will not try again.'
  return 'Davit will try again only after its controller restarts.'
}

/** Distinct causes in a message. */
const MAX_CAUSES = 4

/** Why owners got no email, as sentences. Addresses are in the annotation alone, so a sentence names their positions there. */
function causes({ uid, owners, final, refused }: NoticeState): string[] {
  const rejections = new Map(final.map(({ digest, rejection }) => [digest, rejection]))
  const positions = new Map<string, number[]>()
  let distinct = 0
  for (const [i, address] of owners.entries()) {
    if (owners.indexOf(address) !== i) continue
    distinct += 1
    const reason =
      rejections.get(digestOf(uid, address)) ?? refused.find((refusal) => refusal.address === address)?.reason
    if (reason !== undefined) positions.set(reason, [...(positions.get(reason) ?? []), i + 1])
  }
  return [...positions].slice(0, MAX_CAUSES).map(([reason, at]) => {
    const sentence = withPeriod(reason)
    return at.length === distinct
      ? sentence
      : `${at.length === 1 ? 'Address' : 'Addresses'} ${listed(at.map(String))} of ${OWNER_EMAILS_ANNOTATION}: ${sentence}`
  })
}

function notified(status: 'True' | 'False', reason: string, message: string): ConditionUpdate {
  return { type: OWNERS_NOTIFIED, status, reason, message }
}
