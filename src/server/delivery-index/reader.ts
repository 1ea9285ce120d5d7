/**
 * Reads the log and the WebhookDelivery objects into the lines of the index and keeps up with them. The segments come first, then the
 * outcomes, then the objects, each as a consistent list: an outcome refers to an event that was accepted before, and to an object that
 * was created before.
 */
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { Informer, type InformerDependencies } from '../../kube/informer.ts'
import type { ObjectIdentity, Source, Store } from '../../kube/store.ts'
import type { Watch } from '../../kube/watch-restarts.ts'
import { LARGEST_LOG_PAGE, LOG_PAGE, readLiveSegment } from '../../webhooks/log/reader.ts'
import type { LogSegment } from '../../webhooks/log/store.ts'
import { NONE } from './line-table.ts'
import {
  DeliveryLines,
  type ObjectDelivery,
  type OutcomeBatch,
  readObjectDelivery,
  readOutcomeBatch,
} from './line-updates.ts'

/** A store that passes what the informer reads on to the lines, and keeps no objects itself. */
abstract class LinesStore {
  protected readonly lines: DeliveryLines
  readonly #onRollback: () => void

  /** @param onRollback etcd was restored from a backup: everything that was read is invalid */
  constructor(lines: DeliveryLines, onRollback: () => void) {
    this.lines = lines
    this.#onRollback = onRollback
  }

  age(): void {
    this.#onRollback()
  }
}

export class SegmentStore extends LinesStore implements Store<LogSegment> {
  #listed: Set<string> | undefined
  /** Deleted by events while a list is read that may still contain them. */
  #deletedMeanwhile: Set<string> | undefined

  isNews({ key, version }: ObjectIdentity, source: Source): boolean {
    const name = nameIn(key)
    if (source === 'list') {
      this.#listed?.add(name)
      if (this.#deletedMeanwhile?.has(name)) return false
    }
    // Segments are never updated: only the deletion has a later version.
    return version > (this.lines.segmentVersion(name) ?? 0)
  }

  apply(_identity: ObjectIdentity, segment: LogSegment): void {
    this.lines.segment(segment)
  }

  delete({ key }: ObjectIdentity): void {
    this.#deletedMeanwhile?.add(nameIn(key))
    this.lines.segmentGone(nameIn(key))
  }

  beginList(): void {
    this.#listed = new Set()
    this.#deletedMeanwhile = new Set()
  }

  *endList(listVersion: number, complete: boolean): IterableIterator<void> {
    const listed = this.#listed
    this.abandonList()
    const { segments } = this.lines.lines
    for (const name of complete && listed ? [...segments.names()] : []) {
      const version = segments.find(name)?.version ?? 0
      if (version <= listVersion && !listed?.has(name)) yield this.lines.segmentGone(name)
    }
    yield* this.lines.segmentsSeenUpTo(listVersion)
  }

  abandonList(): void {
    this.#listed = undefined
    this.#deletedMeanwhile = undefined
  }

  seenUpTo(version: number): void {
    for (const _ of this.lines.segmentsSeenUpTo(version));
  }
}

function nameIn(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

export class OutcomeStore extends LinesStore implements Store<OutcomeBatch> {
  /** All segments up to this version were applied. */
  #floor = 0
  /** Later versions that were applied, since an interrupted list is read again. */
  #applied = new Set<number>()

  isNews({ version }: ObjectIdentity): boolean {
    return version > this.#floor && !this.#applied.has(version)
  }

  apply({ version }: ObjectIdentity, outcomes: OutcomeBatch): void {
    this.#applied.add(version)
    this.lines.outcomes(outcomes)
  }

  /** Outcomes remain valid: their segment is deleted only after the deliveries. */
  delete(): void {}

  beginList(): void {}

  endList(listVersion: number): Iterable<void> {
    this.seenUpTo(listVersion)
    return []
  }

  abandonList(): void {}

  seenUpTo(version: number): void {
    this.#floor = Math.max(this.#floor, version)
    if (this.#applied.size > 0) this.#applied = new Set()
  }
}

/** Lines that are checked per step at the end of a list. */
const LINES_PER_STEP = 64

export class ObjectDeliveryStore extends LinesStore implements Store<ObjectDelivery> {
  /** All objects up to this version are known from a complete list. */
  #floor = 0
  #listing = false
  /** Versions at which events deleted objects while a list is read that may still contain them. */
  #deletedMeanwhile = new Map<string, number>()

  isNews({ key, version }: ObjectIdentity, source: Source): boolean {
    const { table } = this.lines.lines
    const line = this.lines.lineOfObject(key)
    if (line !== NONE && source === 'list') table.markListed(line)
    const stale = source === 'event' ? this.#floor : (this.#deletedMeanwhile.get(key) ?? 0)
    return version > stale && version > (line === NONE ? 0 : table.objectVersion(line))
  }

  apply({ version }: ObjectIdentity, delivery: ObjectDelivery): void {
    const line = this.lines.object(delivery, version)
    if (this.#listing && line !== NONE) this.lines.lines.table.markListed(line)
  }

  delete({ key, version }: ObjectIdentity): void {
    if (this.#listing) this.#deletedMeanwhile.set(key, version)
    this.lines.objectGone(this.lines.lineOfObject(key))
  }

  beginList(): void {
    this.abandonList()
    this.lines.lines.table.unmarkAll()
    this.#listing = true
  }

  *endList(listVersion: number, complete: boolean): IterableIterator<void> {
    const { table } = this.lines.lines
    for (let line = 0; complete && line < table.end; line += 1) {
      const isMissing =
        table.hasObject(line) && table.objectVersion(line) <= listVersion && !table.isListed(line)
      if (isMissing) this.lines.objectGone(line)
      if (line % LINES_PER_STEP === 0) yield
    }
    this.abandonList()
    if (!complete) return
    this.#floor = Math.max(this.#floor, listVersion)
    this.lines.objectsSeenUpTo(listVersion)
  }

  abandonList(): void {
    this.#listing = false
    this.#deletedMeanwhile = new Map()
  }

  seenUpTo(version: number): void {
    this.lines.objectsSeenUpTo(version)
  }
}

const OBJECT_PAGE = 1000
/** Objects are the largest of all lists that are compared. */
const COMPARE_EVERY_MS = 2 * 3600_000

type Stage = { what: string; informer: Watch }

export class IndexReading {
  readonly lines: DeliveryLines
  readonly ready: Promise<void>
  readonly #stages: readonly Stage[]
  readonly #ready = Promise.withResolvers<void>()
  readonly #stopping = Promise.withResolvers<void>()
  /** The stage in progress; undefined after the last one. */
  #stage: Stage | undefined
  #stopped = false

  /**
   * @param namespace Davit's own
   * @param capacity maximum of lines
   * @param onLost something was missed or became invalid: everything must be read again
   */
  constructor(
    needs: InformerDependencies,
    namespace: string,
    capacity: number,
    onLost: (why: string) => void,
  ) {
    const lost = (why: string) => {
      if (!this.#stopped) onLost(why)
    }
    this.lines = new DeliveryLines(capacity, () =>
      lost('outcomes came faster than the segments that they speak of'),
    )
    this.#stages = createStages(needs, namespace, this.lines, () =>
      lost('the store of the cluster was set back to an older one'),
    )
    this.#stage = this.#stages[0]
    this.ready = this.#ready.promise
  }

  /** What is being read, as text; undefined if all was read. */
  get progress(): string | undefined {
    return this.#stage && `reading ${this.#stage.what}: ${this.lines.size} lines so far`
  }

  /** The watch of the log is interrupted, so recent events may be missing. */
  get isCutOff(): boolean {
    const [log] = this.#stages
    return log !== undefined && log.informer.health.disconnectedForMs() > 0
  }

  start(): this {
    void this.#read()
    return this
  }

  /** Reopens watches that may be dead without noticing. */
  reopen(): void {
    for (const { informer } of this.#stages) informer.reopen()
  }

  /** When it resolves, nothing changes the lines any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#stopping.resolve()
    await Promise.all(this.#stages.map(({ informer }) => informer.stop()))
  }

  async #read(): Promise<void> {
    for (const stage of this.#stages) {
      this.#stage = stage
      stage.informer.start()
      await Promise.race([stage.informer.synced, this.#stopping.promise])
      if (this.#stopped) return
    }
    this.#stage = undefined
    this.#ready.resolve()
  }
}

function createStages(
  needs: InformerDependencies,
  namespace: string,
  lines: DeliveryLines,
  onRollback: () => void,
): readonly Stage[] {
  const handler = { applied: () => undefined }
  const log = {
    query: { namespace, limit: LOG_PAGE },
    largestPage: LARGEST_LOG_PAGE,
    handler,
    streaming: true,
  }
  const segments = new Informer<LogSegment>(
    { ...log, type: deliverySegments, decode: readLiveSegment, store: new SegmentStore(lines, onRollback) },
    needs,
  )
  const outcomes = new Informer<OutcomeBatch>(
    { ...log, type: outcomeSegments, decode: readOutcomeBatch, store: new OutcomeStore(lines, onRollback) },
    needs,
  )
  const objects = new Informer<ObjectDelivery>(
    {
      type: webhookDeliveries,
      query: { limit: OBJECT_PAGE },
      decode: readObjectDelivery,
      handler,
      compareEveryMs: COMPARE_EVERY_MS,
      store: new ObjectDeliveryStore(lines, onRollback),
    },
    needs,
  )
  return [
    { what: 'the events of the delivery log', informer: segments },
    { what: 'the outcomes of the delivery log', informer: outcomes },
    { what: 'the deliveries that have objects', informer: objects },
  ]
}
