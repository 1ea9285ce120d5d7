import { type AcceptedEvent, deliverySegmentKind, deliverySegments } from '../../apis/delivery-segment.ts'
import { NAME_ENTROPY_BYTES, sortableName, timeOfName } from '../../apis/ids.ts'
import { LOG_FORMAT } from '../../apis/log-format.ts'
import { API_VERSION, CLAIMS_LABEL, NO_BACKUP_LABEL, type ResourceType } from '../../apis/meta.ts'
import {
  encodeLogRecord,
  isShardRecord,
  outcomeSegmentKind,
  outcomeSegments,
} from '../../apis/outcome-segment.ts'
import {
  ApiError,
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import type { LogMetrics } from '../../lib/metrics.ts'
import {
  backoffMs,
  type Clock,
  type DualTimestamp,
  elapsedSince,
  pollUntil,
  type Random,
  sleep,
} from '../../lib/time.ts'
import { organizationOf, planSegments, segmentSpec, sizeOf } from './codec.ts'
import { GroupCommit } from './group-commit.ts'
import type { Appended, EventLog, OutcomeRecorder } from './store.ts'

/**
 * The delivery log in Kubernetes: names of segments, creates that a lost answer does not repeat, and the group commits of accepted events
 * and of outcomes. See "Writing" in README.md.
 */

/** Later than any clock; a name with such a time must leave later names to count on. */
const NEVER = 2 ** 47
/** If the watch was silent for longer, it may be broken: the list decides. */
const WATCH_SILENCE_MS = 15_000

type SegmentNamerOptions = {
  clock: Clock
  random: Random
  /** The first name of a list of the sequence; undefined if it is empty. @throws ApiError */
  first: () => Promise<string | undefined>
}

/**
 * Names of the segments of one sequence. A list by name must start with the last write, even if a writer's clock is ahead: so each name
 * is newer than all that its writer has made or seen, and has the clock's time only if that is later.
 */
export class SegmentNamer {
  readonly #options: SegmentNamerOptions
  /** The time of the newest name, milliseconds since 1970. */
  #newest = 0
  #observedAt = Number.NEGATIVE_INFINITY

  constructor(options: SegmentNamerOptions) {
    this.#options = options
  }

  /** A name newer than all that existed some seconds ago. @throws ApiError if the newest name cannot be read */
  async next(): Promise<string> {
    const { clock, random, first } = this.#options
    if (clock.monotonic() - this.#observedAt > WATCH_SILENCE_MS) {
      const asked = clock.monotonic()
      this.observe((await first()) ?? '')
      this.#observedAt = asked
    }
    this.#newest = Math.max(Math.floor(clock.now()), this.#newest + 1)
    return sortableName(this.#newest, random.bytes(NAME_ENTROPY_BYTES))
  }

  /** A name from the watch, of any writer. Names that Davit did not make have no time. */
  observe(name: string): void {
    this.#observedAt = this.#options.clock.monotonic()
    const time = timeOfName(name)
    if (time < NEVER) this.#newest = Math.max(this.#newest, time)
  }
}

/** The option `first` of a SegmentNamer, for one of the two kinds of segment. */
export function firstNameReader(
  resources: ResourceReader,
  type: ResourceType,
  namespace: string,
): () => Promise<string | undefined> {
  return async () => (await resources.list(type, { namespace, limit: 1 })).items[0]?.metadata.name
}

export type IdempotentCreateOptions = {
  clock: Clock
  random: Random
  /** Retries only transient errors, for this long. Absent: retries every error until `signal` aborts. */
  deadlineMs?: number
  /** Once it is false, no write is started. Absent: always true. */
  mayBegin?: () => boolean
  /** While it is false, waits without counting a failure. Absent: always true. */
  mayTry?: () => boolean
  signal?: AbortSignal
}

/** Readers of the log go back by more than this. */
const NAME_LIFE_MS = 20_000
const RETRY_WAITS = { firstMs: 50, longestMs: 5000 }

type Resources = ResourceReader & ResourceWriter

/**
 * Creates an object exactly once, even if an answer is lost: a retry uses the same name. A name that is too old to be the newest is
 * replaced, if the object does not exist.
 * @param make an object under a unique name, newer than all that exist
 * @throws ApiError with a deadline: permanent errors at once, transient ones after it
 */
export async function createIdempotently(
  resources: Resources,
  type: ResourceType,
  make: () => Promise<RawObject>,
  options: IdempotentCreateOptions,
): Promise<RawObject> {
  const { clock, random, mayBegin, mayTry, signal } = options
  const started = clock.monotonic()
  let draft: { object: RawObject; namedAt: number } | undefined
  const write = async (): Promise<RawObject> => {
    const now = clock.monotonic()
    if (draft && now - draft.namedAt > NAME_LIFE_MS) {
      const written = await findObject(resources, type, draft.object.metadata)
      if (written) return written
      draft = undefined
    }
    draft ??= { object: await make(), namedAt: now }
    if (mayBegin?.() === false) throw new WaitedTooLong()
    try {
      return await resources.create(type, draft.object, { answer: 'metadata' })
    } catch (error) {
      // An earlier try wrote it.
      if (isApiError(error, 'AlreadyExists')) return await resources.get(type, draft.object.metadata)
      throw error
    }
  }
  for (let failures = 1; ; failures += 1) {
    if (mayTry) await pollUntil(clock, mayTry, signal)
    try {
      return await write()
    } catch (error) {
      const retryAfter = isApiError(error) ? (error.retryAfterMs ?? 0) : 0
      const ms = Math.max(retryAfter, backoffMs(failures, RETRY_WAITS, random))
      if (isPermanent(error, clock.monotonic() - started + ms, options)) throw error
      await sleep(clock, ms, signal)
    }
  }
}

/** This try wrote nothing; an earlier one may have. */
class WaitedTooLong extends ApiError {
  constructor() {
    super(
      'Unavailable',
      'it has waited for longer than what was looked up before it holds, and is not written',
    )
  }
}

function isPermanent(
  error: unknown,
  spentMs: number,
  { deadlineMs, signal }: IdempotentCreateOptions,
): boolean {
  if (signal?.aborted || error instanceof WaitedTooLong) return true
  if (deadlineMs === undefined) return false
  return spentMs > deadlineMs || !isApiError(error, 'Unavailable', 'TooManyRequests')
}

type SegmentWriterOptions = {
  resources: Resources
  namespace: string
  /** Name of this process, or of the replica's start. */
  writer: string
  names: SegmentNamer
  clock: Clock
  random: Random
  metrics?: LogMetrics
}

/** What a segment is made of. @property size events or records in it */
type NewSegment = {
  kind: 'delivery' | 'outcome'
  size: number
  labels?: Record<string, string>
  specOf: () => Record<string, unknown>
}

/** Creates a segment and measures that. */
async function writeSegment(
  options: SegmentWriterOptions,
  { kind, size, labels, specOf }: NewSegment,
  retry: Partial<IdempotentCreateOptions>,
): Promise<RawObject> {
  const { resources, namespace, names, clock, random, metrics } = options
  const segmentKind = kind === 'delivery' ? deliverySegmentKind : outcomeSegmentKind
  const make = async (): Promise<RawObject> => ({
    apiVersion: API_VERSION,
    kind: segmentKind.kind,
    metadata: { name: await names.next(), namespace, labels: { [NO_BACKUP_LABEL]: 'true', ...labels } },
    spec: specOf(),
  })
  const started = clock.monotonic()
  const type = kind === 'delivery' ? deliverySegments : outcomeSegments
  const written = await createIdempotently(resources, type, make, { clock, random, ...retry })
  metrics?.segment(kind, size, (clock.monotonic() - started) / 1000)
  return written
}

type OpenLog = {
  /** Resolves when nothing waits any more. */
  drain(): Promise<void>
  /** How long the oldest write has waited to become durable, in milliseconds; 0 if nothing waits. */
  oldestMs(): number
}

type Append = { events: readonly AcceptedEvent[] }

type EventLogOptions = SegmentWriterOptions & {
  /** Called with the bytes that an organization's events have added to the store. */
  onWritten?: (organization: string, bytes: number) => void
}

const MAX_EVENT_WRITES = 4
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
export function createEventLog(options: EventLogOptions): OpenEventLog {
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
  options: EventLogOptions,
  batch: readonly Append[],
  added: DualTimestamp,
): Promise<Appended[]> {
  const { clock, writer, onWritten } = options
  const events = batch.flatMap((append) => append.events)
  const specOf = () => segmentSpec(events, writer, clock.now())
  const { metadata } = await writeSegment(
    options,
    { kind: 'delivery', size: events.length, specOf },
    {
      deadlineMs: WRITE_DEADLINE_MS,
      mayBegin: () => elapsedSince(clock, added) <= LOOKUP_LIFE_MS,
    },
  )
  for (const append of batch) onWritten?.(organizationOf(append), sizeOf(append.events).bytes)
  let firstDelivery = 0
  return batch.map((append) => {
    const appended = { segment: metadata.name, version: Number(metadata.resourceVersion), firstDelivery }
    for (const { targets } of append.events) firstDelivery += targets.length
    return appended
  })
}

type OutcomeLogOptions = SegmentWriterOptions & {
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
  const specOf = () => ({
    format: LOG_FORMAT,
    writtenAt: clock.now(),
    writer,
    lowWater: String(lowWater()),
    records: records.join('\n'),
  })
  const retry = { mayTry: mayWrite, signal }
  const labels = records.some(isShardRecord) ? { [CLAIMS_LABEL]: 'true' } : {}
  const segment = { kind: 'outcome', size: records.length, labels, specOf } as const
  const { metadata } = await writeSegment(options, segment, retry)
  return records.map(() => Number(metadata.resourceVersion))
}
