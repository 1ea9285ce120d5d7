/** What WebhookDelivery objects say of lines. Their status is the truth, except where the log is ahead of it. */
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { isFinal } from '../../webhooks/delivery/status.ts'
import { isBelowFloor } from './delivery-index-endpoint-logs.ts'
import { type LogEnd, NONE, type Standing } from './line-table.ts'
import type { Lines } from './lines.ts'
import { type PackedId, packedName } from './packed-id.ts'

/** The few fields of a WebhookDelivery that a line needs. */
export type ObjectDelivery = Standing & {
  namespace: string
  endpointUid: string
  id: PackedId
  type: string
  redeliveryOf?: string | undefined
}

const STATE_OF_END: Record<Exclude<LogEnd, 'none'>, DeliveryState> = {
  sent: 'succeeded',
  canceled: 'canceled',
  exhausted: 'exhausted',
}

/** @returns the line that shows it; NONE when there is no room for it */
export function addObject(lines: Lines, shown: ObjectDelivery, version: number): number {
  const { table, logs } = lines
  const log = logs.findOrAdd(shown.namespace, shown.endpointUid)
  let line = log.lines.find(shown.id)
  if (line === NONE) {
    if (isFinal(shown.state) && isBelowFloor(log, shown.id)) {
      logs.dropIfEmpty(log)
      return NONE
    }
    line = lines.add(log, shown.id, shown)
    if (line === NONE) return NONE
  }
  table.setObject(line, version, isFinal(shown.state))
  // It is made first, and gets its status with a second write.
  const isBehind = !isFinal(shown.state) && table.logAttempts(line) > shown.attempts
  if (!isBehind) lines.setStanding(line, shown)
  return line
}

/**
 * The object is gone, and the line with it, but for what the log itself tells: a delivery that ended there stays for
 * as long as its segment, and one that the log has not moved yet is still the log's.
 */
export function dropObject(lines: Lines, line: number): void {
  const { table } = lines
  if (!table.hasObject(line)) return
  const end = table.logEnd(line)
  if (table.segment(line) === NONE || (end === 'none' && table.isMoved(line))) {
    lines.remove(line)
    return
  }
  table.setObject(line, 0, false)
  const attempts = table.logAttempts(line)
  if (end === 'none')
    lines.setStanding(line, { state: attempts > 0 ? 'retrying' : 'pending', attempts, at: Number.NaN })
  else lines.setStanding(line, { state: stateOf(end), attempts, at: table.standing(line).at })
}

export function stateOf(end: Exclude<LogEnd, 'none'>): DeliveryState {
  return STATE_OF_END[end]
}

/** The line of an object by its key, `<namespace>/<26 characters of the id>-<tag>`; NONE when there is none. */
export function lineOfObject(lines: Lines, key: string): number {
  const slash = key.indexOf('/')
  const id = packedName(key.slice(slash + 1, -9))
  return (id && lines.logs.ofObject(key)?.lines.find(id)) ?? NONE
}
