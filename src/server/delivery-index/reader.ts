import { deliverySegments } from '../../apis/delivery-segment.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { Informer, type InformerDependencies } from '../../kube/informer.ts'
import type { ObjectIdentity, Source, Store } from '../../kube/store.ts'
import type { Watch } from '../../kube/watch-health.ts'
import { LARGEST_LOG_PAGE, LOG_PAGE, readLiveSegment } from '../../webhooks/log/reader.ts'
import type { LogSegment } from '../../webhooks/log/store.ts'
import {
  DeliveryLines,
  lineOfObject,
  type ObjectDelivery,
  type OutcomeBatch,
  readObjectDelivery,
  readOutcomeBatch,
} from './delivery-lines.ts'
import { NONE } from './line-table.ts'

/** Takes the segments of the log into the lines as a reflector reads them, and keeps their names alone. */

export class SegmentStore implements Store<LogSegment> {
  readonly #lines: DeliveryLines
  readonly #onSetBack: () => void
  #listed: Set<string> | undefined
  /** Deleted by events while a list was being read, which may still show them. */
  #deletedMeanwhile: Set<string> | undefined

  /** @param onSetBack the API server's store is an older one: nothing that was read of it holds any more */
  constructor(lines: DeliveryLines, onSetBack: () => void) {
    this.#lines = lines
    this.#onSetBack = onSetBack
  }

  get size(): number {
    return this.#lines.lines.segments.size
  }

  get(): undefined {
    return undefined
  }

  *values(): IterableIterator<LogSegment> {}

  isNews({ key, version }: ObjectIdentity, source: Source): boolean {
    const name = nameIn(key)
    if (source === 'list') {
      this.#listed?.add(name)
      if (this.#deletedMeanwhile?.has(name)) return false
    }
    // It is never updated: only its deletion has a later version.
    return version > (this.#lines.segmentVersion(name) ?? 0)
  }

  apply(_identity: ObjectIdentity, segment: LogSegment): void {
    this.#lines.segment(segment)
  }

  delete({ key }: ObjectIdentity): void {
    this.#deletedMeanwhile?.add(nameIn(key))
    this.#lines.segmentGone(nameIn(key))
  }

  beginList(): void {
    this.#listed = new Set()
    this.#deletedMeanwhile = new Set()
  }

  *endList(listVersion: number, complete: boolean): IterableIterator<void> {
    const listed = this.#listed
    this.abandonList()
    const { segments } = this.#lines.lines
    for (const name of complete && listed ? [...segments.names()] : []) {
      const version = segments.find(name)?.version ?? 0
      if (version <= listVersion && !listed?.has(name)) yield this.#lines.segmentGone(name)
    }
    yield* this.#lines.segmentsSeenUpTo(listVersion)
  }

  abandonList(): void {
    this.#listed = undefined
    this.#deletedMeanwhile = undefined
  }

  seenUpTo(version: number): void {
    for (const _ of this.#lines.segmentsSeenUpTo(version));
  }

  age(): void {
    this.#onSetBack()
  }
}

function nameIn(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

/** Takes records of outcomes into the lines as a reflector reads them, each segment of them once, and keeps none. */

export class OutcomeStore implements Store<OutcomeBatch> {
  readonly size = 0
  readonly #lines: DeliveryLines
  readonly #onSetBack: () => void
  /** Everything up to this version was taken in. */
  #floor = 0
  /** Versions above it that were: a list that broke off is read again. */
  #taken = new Set<number>()

  /** @param onSetBack the API server's store is an older one: nothing that was read of it holds any more */
  constructor(lines: DeliveryLines, onSetBack: () => void) {
    this.#lines = lines
    this.#onSetBack = onSetBack
  }

  get(): undefined {
    return undefined
  }

  *values(): IterableIterator<OutcomeBatch> {}

  isNews({ version }: ObjectIdentity): boolean {
    return version > this.#floor && !this.#taken.has(version)
  }

  apply({ version }: ObjectIdentity, outcomes: OutcomeBatch): void {
    this.#taken.add(version)
    this.#lines.outcomes(outcomes)
  }

  /** What it told stays told: it goes only when nothing is left that it speaks of. */
  delete(): void {}

  beginList(): void {}

  endList(listVersion: number): Iterable<void> {
    this.seenUpTo(listVersion)
    return []
  }

  abandonList(): void {}

  seenUpTo(version: number): void {
    this.#floor = Math.max(this.#floor, version)
    if (this.#taken.size > 0) this.#taken = new Set()
  }

  age(): void {
    this.#onSetBack()
  }
}

/** Takes WebhookDelivery objects into the lines as a reflector reads them, and keeps what the lines keep. */

/** Lines looked at in one step at the end of a list. */
const STEP = 64

export class ObjectDeliveryStore implements Store<ObjectDelivery> {
  readonly #lines: DeliveryLines
  readonly #onSetBack: () => void
  /** All objects are known as of this version, from a complete list. */
  #floor = 0
  #listing = false
  /** Versions at which events deleted objects while a list was being read, which may still show them. */
  #deletedMeanwhile = new Map<string, number>()

  /** @param onSetBack the API server's store is an older one: nothing that was read of it holds any more */
  constructor(lines: DeliveryLines, onSetBack: () => void) {
    this.#lines = lines
    this.#onSetBack = onSetBack
  }

  get size(): number {
    return this.#lines.size
  }

  get(): undefined {
    return undefined
  }

  *values(): IterableIterator<ObjectDelivery> {}

  isNews({ key, version }: ObjectIdentity, source: Source): boolean {
    const { table } = this.#lines.lines
    const line = lineOfObject(this.#lines.lines, key)
    if (line !== NONE && source === 'list') table.markListed(line)
    const stale = source === 'event' ? this.#floor : (this.#deletedMeanwhile.get(key) ?? 0)
    return version > stale && version > (line === NONE ? 0 : table.objectVersion(line))
  }

  apply({ key, version }: ObjectIdentity, shown: ObjectDelivery): void {
    this.#lines.object(shown, version)
    if (!this.#listing) return
    const line = lineOfObject(this.#lines.lines, key)
    if (line !== NONE) this.#lines.lines.table.markListed(line)
  }

  delete({ key, version }: ObjectIdentity): void {
    if (this.#listing) this.#deletedMeanwhile.set(key, version)
    this.#lines.objectGone(key)
  }

  beginList(): void {
    this.abandonList()
    this.#lines.lines.table.unmarkAll()
    this.#listing = true
  }

  *endList(listVersion: number, complete: boolean): IterableIterator<void> {
    const { table } = this.#lines.lines
    for (let line = 0; complete && line < table.end; line += 1) {
      const isMissing =
        table.hasObject(line) && table.objectVersion(line) <= listVersion && !table.isListed(line)
      if (isMissing) this.#lines.objectOfLineGone(line)
      if (line % STEP === 0) yield
    }
    this.abandonList()
    if (!complete) return
    this.#floor = Math.max(this.#floor, listVersion)
    this.#lines.objectsSeenUpTo(listVersion)
  }

  abandonList(): void {
    this.#listing = false
    this.#deletedMeanwhile = new Map()
  }

  seenUpTo(version: number): void {
    this.#lines.objectsSeenUpTo(version)
  }

  age(): void {
    this.#onSetBack()
  }
}

/**
 * Reads the log and the objects into lines, and keeps up with them. In this order, each list as a consistent read: what
 * an outcome speaks of was accepted before, and the object that it names was made before.
 */

export type IndexReadingOptions = {
  needs: InformerDependencies
  /** The operator's namespace. */
  namespace: string
  /** Lines that there may be. */
  capacity: number
  /** What was read does not hold any more, or something was missed: all of it has to be read again. */
  onLost: (why: string) => void
}

const OBJECT_PAGE = 1000
/** Objects are the largest of the lists that are compared. */
const COMPARE_EVERY_MS = 2 * 3600_000

const SET_BACK = 'the store of the cluster was set back to an older one'

type Stage = { words: string; reflector: Watch }

export class IndexReading {
  readonly lines: DeliveryLines
  /** All of it was read. */
  readonly ready: Promise<void>
  readonly #stages: readonly Stage[]
  readonly #stopping = Promise.withResolvers<void>()
  #markReady: () => void = () => undefined
  /** The stage that is read now; undefined when all were. */
  #stage: Stage | undefined
  #stopped = false

  constructor(options: IndexReadingOptions) {
    const lost = (why: string) => {
      if (!this.#stopped) options.onLost(why)
    }
    const onLost = () => lost('outcomes came faster than the segments that they speak of')
    this.lines = new DeliveryLines({ capacity: options.capacity, onLost })
    this.#stages = stagesOf(options, this.lines, () => lost(SET_BACK))
    this.#stage = this.#stages[0]
    this.ready = new Promise((resolve) => {
      this.#markReady = resolve
    })
  }

  /** In words, while something is still to be read. */
  get progress(): string | undefined {
    return this.#stage && `reading ${this.#stage.words}: ${this.lines.size} lines so far`
  }

  /** What was accepted of late may not have been seen: the watch of the log was lost, and is not open again. */
  get isCutOff(): boolean {
    const [log] = this.#stages
    return log !== undefined && log.reflector.health.disconnectedForMs() > 0
  }

  start(): this {
    void this.#read()
    return this
  }

  /** The watches may be dead without knowing it. */
  reopen(): void {
    for (const { reflector } of this.#stages) reflector.reopen()
  }

  /** Resolves when nothing changes the lines any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#stopping.resolve()
    await Promise.all(this.#stages.map(({ reflector }) => reflector.stop()))
  }

  async #read(): Promise<void> {
    for (const stage of this.#stages) {
      this.#stage = stage
      stage.reflector.start()
      await Promise.race([stage.reflector.synced, this.#stopping.promise])
      if (this.#stopped) return
    }
    this.#stage = undefined
    this.#markReady()
  }
}

function stagesOf(
  { needs, namespace }: IndexReadingOptions,
  lines: DeliveryLines,
  onSetBack: () => void,
): readonly Stage[] {
  const handler = { applied: () => undefined }
  const query = { namespace, limit: LOG_PAGE }
  const segments = new Informer<LogSegment>(
    {
      type: deliverySegments,
      query,
      largestPage: LARGEST_LOG_PAGE,
      decode: readLiveSegment,
      handler,
      streaming: true,
      store: new SegmentStore(lines, onSetBack),
    },
    needs,
  )
  const outcomes = new Informer<OutcomeBatch>(
    {
      type: outcomeSegments,
      query,
      largestPage: LARGEST_LOG_PAGE,
      decode: readOutcomeBatch,
      handler,
      streaming: true,
      store: new OutcomeStore(lines, onSetBack),
    },
    needs,
  )
  const objects = new Informer<ObjectDelivery>(
    {
      type: webhookDeliveries,
      query: { limit: OBJECT_PAGE },
      decode: readObjectDelivery,
      handler,
      compareEveryMs: COMPARE_EVERY_MS,
      store: new ObjectDeliveryStore(lines, onSetBack),
    },
    needs,
  )
  return [
    { words: 'the events of the delivery log', reflector: segments },
    { words: 'the outcomes of the delivery log', reflector: outcomes },
    { words: 'the deliveries that have objects', reflector: objects },
  ]
}
