import { type AcceptedEvent, deliverySegmentKind, deliverySegments } from '../../apis/delivery-segment.ts'
import { NAME_ENTROPY_BYTES, sortableName, timeOfName } from '../../apis/ids.ts'
import { API_VERSION, NO_BACKUP_LABEL, type ResourceType } from '../../apis/meta.ts'
import { encodeLogRecord, outcomeSegmentKind, outcomeSegments } from '../../apis/outcome-segment.ts'
import {
  ApiError,
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import { type Clock, type DualTimestamp, elapsedSince, type Random } from '../../lib/clock.ts'
import type { LogMetrics } from '../../lib/metrics.ts'
import { backoffMs, pollUntil, sleep } from '../../lib/sleep.ts'
import { organizationOf, planSegments, segmentSpec, sizeOf } from './codec.ts'
import { GroupCommit } from './group-commit.ts'
import type { Appended, EventLog, OutcomeRecorder } from './store.ts'

/** No clock says so; whoever has made such a name, room to count on from there has to be left. */
const NEVER = 2 ** 47
/** A watch that shows nothing for longer may be broken, or there is nothing: the list tells. */
const SURE_MS = 15_000

export type SegmentNamerOptions = {
  clock: Clock
  random: Random
  /** The first of a list of the sequence by name; undefined where there is none. @throws ApiError */
  first: () => Promise<string | undefined>
}

/**
 * Names of the segments of one sequence. A list by name has to begin with what was written last, also where the clock of a writer is
 * ahead: so each name is newer than all that its writer has made or seen, and its time is that of the clock only where that is later.
 */
export class SegmentNamer {
  readonly #options: SegmentNamerOptions
  /** By names, milliseconds since 1970. */
  #newest = 0
  #sawAt = Number.NEGATIVE_INFINITY

  constructor(options: SegmentNamerOptions) {
    this.#options = options
  }

  /** Newer than all that were there some seconds ago. @throws ApiError where nobody tells what there is */
  async next(): Promise<string> {
    const { clock, random, first } = this.#options
    if (clock.monotonic() - this.#sawAt > SURE_MS) {
      const asked = clock.monotonic()
      this.observe((await first()) ?? '')
      this.#sawAt = asked
    }
    this.#newest = Math.max(Math.floor(clock.now()), this.#newest + 1)
    return sortableName(this.#newest, random.bytes(NAME_ENTROPY_BYTES))
  }

  /** Of one that the watch shows, whoever has made it. A name that Davit did not make tells no time. */
  observe(name: string): void {
    this.#sawAt = this.#options.clock.monotonic()
    const time = timeOfName(name)
    if (time < NEVER) this.#newest = Math.max(this.#newest, time)
  }
}

/** @returns the `first` of `SegmentNamesOptions`, for one of the two kinds of segments */
export function firstNameReader(
  resources: ResourceReader,
  type: ResourceType,
  namespace: string,
): () => Promise<string | undefined> {
  return async () => (await resources.list(type, { namespace, limit: 1 })).items[0]?.metadata.name
}

/**
 * Creates an object exactly once, although an answer may be lost: the name tells a repeat from a stranger. Names tell readers what came
 * last, so one that could not be written for long is not there under that name, and gets another.
 */

export type IdempotentCreateOptions = {
  clock: Clock
  random: Random
  /** Tries again only what may pass, for so long. Absent: tries again whatever it is, until `signal` aborts. */
  deadlineMs?: number
  /** Once it is false nothing is begun to be written any more. Absent: it may be at any time. */
  mayBegin?: () => boolean
  /** While it is false nothing is tried, and nothing counts as a failure; then at once. Absent: always. */
  mayTry?: () => boolean
  signal?: AbortSignal
}

/** Who reads the log goes back by more. */
const NAME_HOLDS_MS = 20_000
const PAUSES = { firstMs: 50, longestMs: 5000 }

/**
 * @param make an object under a name that nobody else uses, and that is newer than all there are
 * @throws ApiError with a deadline, what will not pass by itself at once, and the rest after it
 */
export async function createIdempotently(
  resources: ResourceReader & ResourceWriter,
  type: ResourceType,
  make: () => Promise<RawObject>,
  options: IdempotentCreateOptions,
): Promise<RawObject> {
  const { clock, random, mayTry, signal } = options
  const started = clock.monotonic()
  const draft = new Draft(make, options)
  for (let failures = 1; ; failures += 1) {
    if (mayTry) await pollUntil(clock, mayTry, signal)
    try {
      return await draft.write(resources, type)
    } catch (error) {
      const asked = isApiError(error) ? (error.retryAfterMs ?? 0) : 0
      const ms = Math.max(asked, backoffMs(failures, PAUSES, random))
      if (isOver(error, clock.monotonic() - started + ms, options)) throw error
      await sleep(clock, ms, signal)
    }
  }
}

/** Under one name for as long as that is new. */
class Draft {
  readonly #make: () => Promise<RawObject>
  readonly #clock: Clock
  readonly #mayBegin: () => boolean
  #object: RawObject | undefined
  #namedAt = 0

  constructor(make: () => Promise<RawObject>, { clock, mayBegin = () => true }: IdempotentCreateOptions) {
    this.#make = make
    this.#clock = clock
    this.#mayBegin = mayBegin
  }

  async write(resources: ResourceReader & ResourceWriter, type: ResourceType): Promise<RawObject> {
    const now = this.#clock.monotonic()
    if (this.#object && now - this.#namedAt > NAME_HOLDS_MS) {
      const written = await findObject(resources, type, this.#object.metadata)
      if (written) return written
      this.#object = undefined
    }
    if (!this.#object) {
      this.#object = await this.#make()
      this.#namedAt = now
    }
    if (!this.#mayBegin()) throw new WaitedTooLong()
    return await createOrRead(resources, type, this.#object)
  }
}

/** Nothing was written by the try that says so; of one before it that may not be known. */
class WaitedTooLong extends ApiError {
  constructor() {
    super(
      'Unavailable',
      'it has waited for longer than what was looked up before it holds, and is not written',
    )
  }
}

/** A repeat finds what it wrote before. */
async function createOrRead(
  resources: ResourceReader & ResourceWriter,
  type: ResourceType,
  object: RawObject,
): Promise<RawObject> {
  try {
    return await resources.create(type, object, { answer: 'metadata' })
  } catch (error) {
    if (isApiError(error, 'AlreadyExists')) return await resources.get(type, object.metadata)
    throw error
  }
}

function isOver(error: unknown, spentMs: number, { deadlineMs, signal }: IdempotentCreateOptions): boolean {
  if (signal?.aborted || error instanceof WaitedTooLong) return true
  if (deadlineMs === undefined) return false
  return spentMs > deadlineMs || !isApiError(error, 'Unavailable', 'TooManyRequests')
}

/** The one door into the delivery log: group commits of accepted events as DeliverySegments. */

type Append = { events: readonly AcceptedEvent[] }

export type EventLogOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  /** Name of this process, for people who debug. */
  writer: string
  names: SegmentNamer
  clock: Clock
  random: Random
  metrics?: LogMetrics
  /** Told of the bytes that an organization's events have added to the store. */
  onWritten?: (organization: string, bytes: number) => void
}

/** Segments that may be on their way to the API server at a time. */
const MAX_EVENT_WRITES = 4
/**
 * A segment costs the API server much the same, whatever is in it: to make, to show and to delete. Where more come than
 * that, they wait some milliseconds for company, until they are enough.
 */
const EVENT_WRITE_RATE = { perSecond: 100, burst: 20, writesApart: 2, enough: 32 }
/** Appends that may wait; more are refused at once. */
const MAX_WAITING_APPENDS = 20_000
/** After this long without an answer the publisher hears that the outcome is not known. */
const WRITE_DEADLINE_MS = 10_000

/**
 * Whether an event was accepted before is looked up shortly before its append begins. A process that stood still since may not know of
 * what others have accepted under the same Idempotency-Key, and what reads the log remembers keys for a minute at least.
 */
const HOLDS_MS = 30_000

/** The log's append side. `drain` resolves when nothing waits any more. */
export type OpenEventLog = EventLog & {
  drain(): Promise<void>
  /** For how long what waits longest is not durable, milliseconds; 0 when nothing waits. */
  oldestMs(): number
}

export function createEventLog(options: EventLogOptions): OpenEventLog {
  const commit = new GroupCommit<Append, Appended>({
    plan: planSegments,
    write: (batch, added) => writeSegment(options, batch, added),
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

async function writeSegment(
  options: EventLogOptions,
  batch: readonly Append[],
  added: DualTimestamp,
): Promise<Appended[]> {
  const { clock, namespace, names } = options
  const events = batch.flatMap((append) => append.events)
  const make = async (): Promise<RawObject> => ({
    apiVersion: API_VERSION,
    kind: deliverySegmentKind.kind,
    metadata: { name: await names.next(), namespace, labels: { [NO_BACKUP_LABEL]: 'true' } },
    spec: segmentSpec(events, options.writer, clock.now()),
  })
  const started = clock.monotonic()
  const written = await createIdempotently(options.resources, deliverySegments, make, {
    clock,
    random: options.random,
    deadlineMs: WRITE_DEADLINE_MS,
    mayBegin: () => elapsedSince(clock, added) <= HOLDS_MS,
  })
  options.metrics?.segment('delivery', events.length, (clock.monotonic() - started) / 1000)
  for (const append of batch) options.onWritten?.(organizationOf(append), sizeOf(append.events).bytes)
  return offsetsOf(batch, written.metadata.name, Number(written.metadata.resourceVersion))
}

function offsetsOf(batch: readonly Append[], segment: string, version: number): Appended[] {
  let firstDelivery = 0
  return batch.map((append) => {
    const place = { segment, version, firstDelivery }
    for (const { targets } of append.events) firstDelivery += targets.length
    return place
  })
}

/** Group commits of outcomes as OutcomeSegments: one write for what all lanes of the process have to record. */

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
