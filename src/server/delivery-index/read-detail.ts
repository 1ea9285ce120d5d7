/** One delivery with every attempt, as it is stored now: from its object or, where it has none, from the log. */

import { outcomeSegment, outcomeSegments } from '../../apis/api-outcome-segment.ts'
import { deliveryObjectName, nameOfMessage } from '../../apis/ids.ts'
import { decodeOutcomeRecords } from '../../apis/outcome-segment.ts'
import type { Position } from '../../apis/position.ts'
import {
  type DeliveryAttempt,
  type WebhookDelivery,
  webhookDeliveries,
  webhookDelivery,
} from '../../apis/webhook-delivery.ts'
import type { RawObject, ResourceReader } from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import { NONE } from './line-table.ts'
import type { Lines } from './lines.ts'
import { packedName } from './packed-id.ts'
import type { DeliveryDetail, LoggedEndpoint } from './ports-delivery-index.ts'
import { describeLine, lineOf } from './queries.ts'
import { readObjectDelivery } from './read-sources.ts'

export type DetailSources = {
  lines: Lines
  api: ResourceReader
  /** The operator's namespace. */
  namespace: string
}

/** Segments of outcomes that are read for one answer: one but for what nobody could make an object of. */
const MAX_READS = 8

/**
 * Undefined when there is no such delivery of that endpoint. A line that was left out for want of room is still found by
 * its object. @throws ApiError
 */
export async function readDetail(
  sources: DetailSources,
  endpoint: LoggedEndpoint,
  deliveryId: string,
): Promise<DeliveryDetail | undefined> {
  const name = nameOfMessage(deliveryId)
  const id = name === undefined ? undefined : packedName(name)
  if (name === undefined || !id) return undefined
  const { lines } = sources
  const find = () => lines.logs.find(endpoint.namespace, endpoint.uid)?.lines.find(id) ?? NONE
  const told = find()
  if (told === NONE || lines.table.hasObject(told)) {
    const shown = await readObject(sources.api, endpoint, name)
    if (shown && !isBehindLog(lines, find(), shown)) return shown
    if (!shown && isOfObjectAlone(lines, find())) return undefined
  }
  // As it is by now: the line may have gone, and its number may be another's.
  const line = find()
  return line === NONE ? undefined : await readFromLog(sources, line)
}

/** The object was made, and its status is not written yet. */
function isBehindLog({ table }: Lines, line: number, shown: DeliveryDetail): boolean {
  return line !== NONE && shown.completedAt === undefined && shown.attemptCount < table.logAttempts(line)
}

/** The line goes as soon as the watch tells that its object is gone. */
function isOfObjectAlone({ table }: Lines, line: number): boolean {
  return line !== NONE && table.hasObject(line) && table.logEnd(line) === 'none'
}

async function readObject(
  api: ResourceReader,
  { namespace, uid }: LoggedEndpoint,
  name: string,
): Promise<DeliveryDetail | undefined> {
  const raw = await findObject(api, webhookDeliveries, { namespace, name: deliveryObjectName(name, uid) })
  const { data } = webhookDelivery.safeParse(raw)
  // Somebody else's may have the name.
  return raw && data?.spec.endpointUid === uid ? describeObject(raw, name, data) : undefined
}

function describeObject(raw: RawObject, name: string, { status }: WebhookDelivery): DeliveryDetail {
  const shown = readObjectDelivery(raw)
  return { ...describeLine(name, shown, shown), attempts: status?.attempts ?? [] }
}

async function readFromLog(sources: DetailSources, line: number): Promise<DeliveryDetail> {
  const { lines, api, namespace } = sources
  const described = lineOf(lines, line)
  const version = lines.segments.at(lines.table.segment(line))?.version
  const index = lines.table.indexInSegment(line)
  const names = version === undefined ? [] : lines.outcomesOf(line).slice(0, MAX_READS)
  const read = names.map((name) => findObject(api, outcomeSegments, { namespace, name }))
  const segments = await Promise.all(read)
  const attempts = segments.flatMap((raw) => attemptsIn(raw, { version: version ?? 0, index }))
  return { ...described, attempts: attempts.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)) }
}

function attemptsIn(raw: RawObject | undefined, { version, index }: Position): DeliveryAttempt[] {
  const { data } = outcomeSegment.safeParse(raw)
  if (!data) return []
  return decodeOutcomeRecords(data.spec).flatMap((record) => {
    const isIts = record.position.version === version && record.position.index === index
    return isIts && (record.kind === 'sent' || record.kind === 'failed') ? [record.attempt] : []
  })
}
