/** Group commits of outcomes as OutcomeSegments: one write for what all lanes of the process have to record. */

import { outcomeSegmentKind, outcomeSegments } from '../../apis/api-outcome-segment.ts'
import { API_VERSION, NO_BACKUP_LABEL } from '../../apis/meta.ts'
import { encodeLogRecord } from '../../apis/outcome-segment.ts'
import type { RawObject, ResourceReader, ResourceWriter } from '../../kube/client.ts'
import type { LogMetrics } from '../../lib/metrics.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { GroupCommit } from './group-commit.ts'
import { createIdempotently } from './kubernetes-store.ts'
import type { SegmentNamer } from './segment-names.ts'
import type { OutcomeRecorder } from './store.ts'

export type OutcomeLogOptions = {
  resources: ResourceReader & ResourceWriter
  namespace: string
  /** The start of the replica. */
  writer: string
  names: SegmentNamer
  clock: Clock
  random: Random
  metrics?: LogMetrics
  /** The low-water mark to write beside the records. */
  lowWater: () => number
  /** What is written is not refused: a Lease that is renewed now and then gives short times in which it is not. */
  mayWrite: () => boolean
  signal: AbortSignal
  /** How much of all deliveries is this replica's, 0 to 1: so much of the writes is. Absent: all. */
  share?: () => number
}

/** Nothing new is sent while more records wait than this, or one is not durable after so long. */
const MAX_WAITING_RECORDS = 1000
const MAX_WAIT_MS = 5000
const LINGER_MS = 3
/**
 * A segment costs the same, however few records are in it: to make, to show to every replica, and to delete. Ordered
 * lanes and shards that change hands wait for their records, which are urgent; what is not recorded yet when this replica is
 * killed is sent again.
 */
const OUTCOME_WRITE_RATE = { perSecond: 20, burst: 20, enough: 256 }
const MAX_BATCH_BYTES = 256 * 1024
const MAX_BATCH_RECORDS = 4000
const MAX_OUTCOME_WRITES = 2

export type OpenOutcomeLog = OutcomeRecorder & {
  drain(): Promise<void>
  /** Records that wait to become durable. */
  waiting(): number
  /** For how long what waits longest is not durable, milliseconds; 0 when nothing waits. */
  oldestMs(): number
}

export function createOutcomeLog(options: OutcomeLogOptions): OpenOutcomeLog {
  const commit = new GroupCommit<string, number>({
    plan: planRecords,
    write: (batch) => writeOutcomes(options, batch),
    isCulprit: () => false,
    maxInFlight: MAX_OUTCOME_WRITES,
    // The bound is kept by `healthy`: what was sent must be recorded, however many there are.
    maxWaiting: Number.MAX_SAFE_INTEGER,
    lingerMs: LINGER_MS,
    pace: { ...OUTCOME_WRITE_RATE, share: options.share },
    clock: options.clock,
  })
  return {
    record: (record, options) => commit.add(encodeLogRecord(record), options),
    healthy: () => commit.waiting < MAX_WAITING_RECORDS && commit.oldestMs() < MAX_WAIT_MS,
    drain: () => commit.drain(),
    waiting: () => commit.waiting,
    oldestMs: () => commit.oldestMs(),
  }
}

function planRecords(records: readonly string[]): string[][] {
  const batches: string[][] = []
  let batch: string[] = []
  let bytes = 0
  for (const record of records) {
    if (batch.length >= MAX_BATCH_RECORDS || bytes + record.length > MAX_BATCH_BYTES) {
      batches.push(batch)
      batch = []
      bytes = 0
    }
    batch.push(record)
    bytes += record.length
  }
  if (batch.length > 0) batches.push(batch)
  return batches
}

async function writeOutcomes(options: OutcomeLogOptions, records: readonly string[]): Promise<number[]> {
  const { clock, random, namespace, names } = options
  const make = async (): Promise<RawObject> => ({
    apiVersion: API_VERSION,
    kind: outcomeSegmentKind.kind,
    metadata: { name: await names.next(), namespace, labels: { [NO_BACKUP_LABEL]: 'true' } },
    spec: {
      writtenAt: clock.now(),
      writer: options.writer,
      lowWater: String(options.lowWater()),
      records: records.join('\n'),
    },
  })
  const started = clock.monotonic()
  const written = await createIdempotently(options.resources, outcomeSegments, make, {
    clock,
    random,
    mayTry: options.mayWrite,
    signal: options.signal,
  })
  options.metrics?.segment('outcome', records.length, (clock.monotonic() - started) / 1000)
  const version = Number(written.metadata.resourceVersion)
  return records.map(() => version)
}
