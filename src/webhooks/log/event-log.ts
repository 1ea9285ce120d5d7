/** The one door into the delivery log: group commits of accepted events as DeliverySegments. */
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { deliverySegmentKind, deliverySegments } from '../../apis/delivery-segment.ts'
import { API_VERSION, NO_BACKUP_LABEL } from '../../apis/meta.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { LogMetrics } from '../../lib/metrics.ts'
import { type DualTimestamp, elapsedSince } from '../../lib/moment.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { organizationOf, planSegments, segmentSpec, sizeOf } from './codec.ts'
import { GroupCommit } from './group-commit.ts'
import { createIdempotently } from './kubernetes-store.ts'
import type { SegmentNamer } from './segment-names.ts'
import type { Appended, EventLog } from './store.ts'

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
