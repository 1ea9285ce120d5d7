/** What records of the log say of a delivery. */
import type { OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { afterAttempt } from './status.ts'

/** Its entry in the log is closed: the log says its end, or an object shows it. */
export function closesEntry(record: OutcomeRecord): boolean {
  return record.kind === 'moved' || record.kind === 'canceled' || (record.kind === 'sent' && !record.object)
}

/** It has come to its end, though an object of it may be owed. After the last attempt there is no next one. */
export function endsDelivery(record: OutcomeRecord): boolean {
  if (record.kind === 'failed') return record.nextAttemptAt === 0
  return record.kind === 'sent' || record.kind === 'canceled'
}

/** The status that the records of its attempts come to. */
export function statusFromRecords(records: readonly OutcomeRecord[]): WebhookDeliveryStatus {
  let status: WebhookDeliveryStatus = {}
  for (const record of records) {
    if (record.kind !== 'sent' && record.kind !== 'failed') continue
    const endedAt = Date.parse(record.attempt.at) + record.attempt.latencyMs
    const result = { succeeded: record.kind === 'sent', attempt: record.attempt }
    status = afterAttempt(status, result, { endedAt, policy: { ordered: false, scale: 1 }, fraction: 0 })
    if (record.kind === 'failed' && status.state === 'retrying') {
      status = { ...status, nextAttemptAt: new Date(record.nextAttemptAt).toISOString() }
    }
  }
  return status
}
