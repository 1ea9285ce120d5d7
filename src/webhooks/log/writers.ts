import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { encodeLogRecord, isShardLine, newOutcomeSegment } from '../../apis/outcome-segment.ts'
import { isApiError } from '../../kube/client.ts'
import type { LogMetrics } from '../../lib/metrics.ts'
import { type Clock, type DualTimestamp, elapsedSince } from '../../lib/time.ts'
import { planSegments, segmentSpec } from './codec.ts'
import { GroupCommit } from './group-commit.ts'
import type { AppendRules, LogStore, NewSegment, Sequence, StoredSegment } from './log-store.ts'
import type { Appended, EventLog, OutcomeRecorder } from './store.ts'

/** The two writers of the log: group commits of accepted events and of outcomes. See "Writing" in README.md. */

type WriterOptions = {
  store: Pick<LogStore, 'append'>
  /** Name of this process, or of the replica's start. */
  writer: string
  clock: Clock
  metrics?: LogMetrics
}

/** Appends a segment and measures that. @param size events or records in it */
async function append(
  { store, clock, metrics }: WriterOptions,
  sequence: Sequence,
  { size, ...segment }: NewSegment & { size: number },
  rules: AppendRules,
): Promise<StoredSegment> {
  const started = clock.monotonic()
  const written = await store.append(sequence, segment, rules)
  metrics?.segment(sequence === 'events' ? 'delivery' : 'outcome', size, (clock.monotonic() - started) / 1000)
  return written
}

type OpenLog = {
  /** Resolves when nothing waits any more. */
  drain(): Promise<void>
  /** How long the oldest write has waited to become durable, in milliseconds; 0 if nothing waits. */
  oldestMs(): number
}

type Append = { events: readonly AcceptedEvent[] }

/** With more of them, each has fewer events in it, and an event costs more. */
const MAX_EVENT_WRITES = 2
/**
 * A segment costs the API server the same whatever is in it: create, watch events, delete. At a higher rate, appends wait some
 * milliseconds to share a segment, until `enough` wait.
 */
const EVENT_WRITE_RATE = { perSecond: 100, burst: 20, writesApart: 2, enough: 32 }
const MAX_WAITING_APPENDS = 20_000
/** After this time without an answer, the publisher learns that the outcome is unknown. */
const WRITE_DEADLINE_MS = 10_000

/**
 * Whether an event is a duplicate is looked up shortly before its append. A process that was paused since then may not know what others
 * have accepted under the same idempotency key. Readers of the log remember keys for at least a minute.
 */
const LOOKUP_LIFE_MS = 30_000

export type OpenEventLog = EventLog & OpenLog

/** Group commits of accepted events: the only way into the delivery log. */
export function createEventLog(options: WriterOptions): OpenEventLog {
  const commit = new GroupCommit<Append, Appended>({
    plan: planSegments,
    write: (batch, added) => writeEvents(options, batch, added),
    isCulprit: (error) => isApiError(error, 'Invalid', 'TooLarge', 'BadRequest'),
    maxInFlight: MAX_EVENT_WRITES,
    maxWaiting: MAX_WAITING_APPENDS,
    pace: EVENT_WRITE_RATE,
    clock: options.clock,
  })
  return {
    append: (events) => commit.add({ events }),
    drain: () => commit.drain(),
    oldestMs: () => commit.oldestMs(),
  }
}

async function writeEvents(
  options: WriterOptions,
  batch: readonly Append[],
  added: DualTimestamp,
): Promise<Appended[]> {
  const { clock, writer } = options
  const events = batch.flatMap((append) => append.events)
  const specOf = () => segmentSpec(events, writer, clock.now())
  const rules = {
    deadlineMs: WRITE_DEADLINE_MS,
    mayBegin: () => elapsedSince(clock, added) <= LOOKUP_LIFE_MS,
  }
  const { metadata } = await append(options, 'events', { size: events.length, specOf }, rules)
  let firstDelivery = 0
  return batch.map((append) => {
    const appended = { segment: metadata.name, version: Number(metadata.resourceVersion), firstDelivery }
    for (const { targets } of append.events) firstDelivery += targets.length
    return appended
  })
}

type OutcomeLogOptions = WriterOptions & {
  lowWater: () => number
  /** False while the replica's Lease has lapsed; writes wait, and go on when it is renewed. */
  mayWrite: () => boolean
  signal: AbortSignal
  /** This replica's share of all deliveries, 0 to 1, and so of the writes. Absent: all. */
  share?: () => number
}

/** No new attempt starts while more records than this wait, or one has waited for this long. */
const MAX_WAITING_RECORDS = 1000
const MAX_WAIT_MS = 5000
const LINGER_MS = 3
/**
 * A segment costs the same however few records it has: create, a watch event for every replica, delete. Records that an ordered queue or
 * a shard handoff waits for are urgent. Attempts without a durable record are sent again if this replica is killed.
 */
const OUTCOME_WRITE_RATE = { perSecond: 20, burst: 20, enough: 256 }
const MAX_BATCH_BYTES = 256 * 1024
const MAX_BATCH_RECORDS = 4000
const MAX_OUTCOME_WRITES = 2

export type OpenOutcomeLog = OutcomeRecorder &
  OpenLog & {
    /** Records that wait to become durable. */
    waiting(): number
  }

/** Group commits of outcomes: one write for the records of all queues of the process. */
export function createOutcomeLog(options: OutcomeLogOptions): OpenOutcomeLog {
  const commit = new GroupCommit<string, number>({
    plan: planRecords,
    write: (batch) => writeOutcomes(options, batch),
    isCulprit: () => false,
    maxInFlight: MAX_OUTCOME_WRITES,
    // `healthy` is the bound: every attempt that was sent must be recorded.
    maxWaiting: Number.MAX_SAFE_INTEGER,
    lingerMs: LINGER_MS,
    pace: { ...OUTCOME_WRITE_RATE, share: options.share },
    clock: options.clock,
  })
  return {
    record: (record, how) => commit.add(encodeLogRecord(record), how),
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
  const { clock, writer, lowWater, mayWrite, signal } = options
  const specOf = () =>
    newOutcomeSegment({ writtenAt: clock.now(), writer, lowWater: String(lowWater()) }, records.join('\n'))
  const retry = { mayTry: mayWrite, signal }
  const segment = { size: records.length, hasClaims: records.some(isShardLine), specOf }
  const { metadata } = await append(options, 'outcomes', segment, retry)
  return records.map(() => Number(metadata.resourceVersion))
}
