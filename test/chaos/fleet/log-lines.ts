/** Collects what the log contains about a delivery, and about its owners, for debugging. */

import { formatPosition, type Position } from '../../../src/apis/delivery-segment.ts'
import { isShardRecord } from '../../../src/apis/outcome-segment.ts'
import { shardOf } from '../../../src/ha/assignment.ts'
import type { Logger } from '../../../src/lib/log.ts'
import { endsDelivery } from '../../../src/webhooks/log/fold.ts'
import { readLoggedOutcomes, readSegment } from '../../../src/webhooks/log/reader.ts'
import type { LoggedOutcomes, LogSegment } from '../../../src/webhooks/log/store.ts'
import { keyOf } from '../../support/verdict.ts'
import type { Kept } from './archive.ts'

/** A position of it in the log, and the shard of its endpoint. */
type LogEntry = { position: Position; segment: string; shard: number; at: number }

export type LogEvidence = {
  segments: readonly Kept[]
  outcomes: readonly Kept[]
  /** Names of endpoints in the cluster, and their counterparts at the receivers. */
  aliases: ReadonlyMap<string, string>
}

const DEAF: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/**
 * @param wanted `<endpoint> <id>` @returns lines of each delivery, oldest first; times in whole seconds on the harness's clock
 */
export function logLinesOf(evidence: LogEvidence, wanted: readonly string[]): Map<string, string[]> {
  const keys = new Set(wanted)
  const segments = evidence.segments.map(({ raw }) => readSegment(raw))
  const places = Map.groupBy(
    segments.flatMap((segment) => placesIn(segment, evidence.aliases)).filter(({ key }) => keys.has(key)),
    ({ key }) => key,
  )
  const outcomes = outcomesIn(evidence.outcomes).sort((a, b) => a.version - b.version)
  return new Map(
    [...places].map(([key, found]) => [
      key,
      [...found.map(positionText), ...outcomes.flatMap((one) => linesOf(one, found))],
    ]),
  )
}

export function outcomesIn(kept: readonly Kept[]): LoggedOutcomes[] {
  return kept.flatMap(({ raw }) => readLoggedOutcomes(raw, DEAF) ?? [])
}

/** Deliveries with an object whose end is not in the log: some process may count them as pending. */
export function unreportedIn({ segments, outcomes, aliases }: LogEvidence): string[] {
  const records = outcomesIn(outcomes).flatMap((one) => one.records)
  const [moved, ended] = [new Set<string>(), new Set<string>()]
  for (const record of records) {
    if (isShardRecord(record)) continue
    if (record.kind === 'moved') moved.add(formatPosition(record.position))
    else if (record.kind === 'ended' || endsDelivery(record)) ended.add(formatPosition(record.position))
  }
  return segments
    .flatMap(({ raw }) => placesIn(readSegment(raw), aliases))
    .filter(({ position }) => moved.has(formatPosition(position)) && !ended.has(formatPosition(position)))
    .map(({ key }) => key)
}

function placesIn({ version, name, createdAt, deliveries }: LogSegment, aliases: LogEvidence['aliases']) {
  return deliveries.map(({ index, event, endpoint }): LogEntry & { key: string } => ({
    key: keyOf({ endpoint: aliases.get(endpoint.name) ?? endpoint.name, id: `msg_${event.id}` }),
    position: { version, index },
    segment: name,
    shard: shardOf(endpoint.uid),
    at: createdAt,
  }))
}

function positionText({ position, segment, shard, at }: LogEntry): string {
  return `  ${formatPosition(position)} of ${segment} at ${second(at)}, shard ${shard}`
}

function linesOf(
  { version, writer, createdAt, records, lowWater }: LoggedOutcomes,
  places: readonly LogEntry[],
): string[] {
  const shards = new Set(places.map(({ shard }) => shard))
  const positions = new Set(places.map(({ position }) => formatPosition(position)))
  return records.flatMap((record) => {
    const where = `  ${version} at ${second(createdAt)} by ${writer}, all closed up to ${lowWater}:`
    if (isShardRecord(record)) {
      const which = record.shards.filter((shard) => shards.has(shard))
      const ends = record.kind === 'claim' && record.ends ? `, ends ${record.ends}` : ''
      return which.length === 0
        ? []
        : [`${where} ${record.kind} ${which} after ${record.after ?? 'all'}${ends}`]
    }
    const position = formatPosition(record.position)
    return positions.has(position) ? [`${where} ${position} ${record.kind}`] : []
  })
}

/** Creation times are whole seconds since 1970. */
function second(ms: number): string {
  return ((ms - performance.timeOrigin) / 1000).toFixed(0)
}
