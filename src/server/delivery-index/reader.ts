/**
 * Reads the log and the WebhookDelivery objects into the lines of the index and keeps up with them. The segments come first, then the
 * outcomes, then the objects, each as a consistent list: an outcome refers to an event that was accepted before, and to an object that
 * was created before.
 */
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { Informer, type InformerDependencies } from '../../kube/informer.ts'
import type { ObjectIdentity, Source, Store } from '../../kube/store.ts'
import type { Watch } from '../../kube/watch-restarts.ts'
import { counted } from '../../lib/text.ts'
import { type DualTimestamp, dualTimestamp, exponentialMs, sleep } from '../../lib/time.ts'
import type { LogStore } from '../../webhooks/log/log-store.ts'
import { LARGEST_LOG_PAGE, LOG_PAGE, MISSED_AFTER_MS, readLiveSegment } from '../../webhooks/log/reader.ts'
import type { LogSegment } from '../../webhooks/log/store.ts'
import { objectBytes } from '../../webhooks/log/written-bytes.ts'
import type { ChangeListener } from './changes.ts'
import { NONE } from './line-table.ts'
import {
  DeliveryLines,
  type ObjectDelivery,
  type OutcomeBatch,
  readObjectDelivery,
  readOutcomeBatch,
  withClaimsOnly,
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
  /** Of a list that goes by name, those whose claims are not known yet: they have to wait for earlier ones. */
  #later: OutcomeBatch[] = []
  #isListing = false
  /** All segments up to this version were applied. */
  #floor = 0
  /** Later versions that were applied, since an interrupted list is read again. */
  #applied = new Set<number>()

  isNews({ version }: ObjectIdentity): boolean {
    return version > this.#floor && !this.#applied.has(version)
  }

  apply({ version }: ObjectIdentity, outcomes: OutcomeBatch): void {
    this.#applied.add(version)
    if (this.#isListing && version > this.lines.claimsUpTo) this.#later.push(outcomes)
    else this.lines.outcomes(outcomes)
  }

  /** Outcomes remain valid: their segment is deleted only after the deliveries. */
  delete(): void {}

  beginList(): void {
    this.abandonList()
    this.#isListing = true
  }

  *endList(listVersion: number): IterableIterator<void> {
    this.#isListing = false
    for (const outcomes of this.#later.sort((a, b) => a.version - b.version))
      yield this.lines.outcomes(outcomes)
    this.#later = []
    this.seenUpTo(listVersion)
  }

  abandonList(): void {
    this.#isListing = false
    for (const { version } of this.#later) this.#applied.delete(version)
    this.#later = []
  }

  seenUpTo(version: number): void {
    this.#floor = Math.max(this.#floor, version)
    if (this.#applied.size > 0) this.#applied = new Set()
    this.lines.outcomesSeenUpTo(version)
  }
}

/** Lines that are checked per step at the end of a list. */
const LINES_PER_STEP = 64

/** Called with roughly the bytes that each write of a WebhookDelivery adds to the store. */
type ObjectWritten = (organization: string, bytes: number) => void

export class ObjectDeliveryStore extends LinesStore implements Store<ObjectDelivery> {
  readonly #onWritten: ObjectWritten
  /** All objects up to this version are known from a complete list. */
  #floor = 0
  #listing = false
  /** Versions at which events deleted objects while a list is read that may still contain them. */
  #deletedMeanwhile = new Map<string, number>()

  constructor(lines: DeliveryLines, onRollback: () => void, onWritten: ObjectWritten) {
    super(lines, onRollback)
    this.#onWritten = onWritten
  }

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
    // A list has only the newest version of each, whenever it was written.
    const { namespace, bodyBytes, sharesBody, attempts } = delivery
    if (!this.#listing) this.#onWritten(namespace, objectBytes(sharesBody ? 0 : bodyBytes, attempts))
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

/** @property before what has to be read before the informer starts; retried until it succeeds */
type Stage = { what: string; informer: Watch; before?: () => Promise<void> }

type ReadingListener = {
  /** Something was missed or became invalid: everything must be read again. */
  lost: (why: string) => void
  objectWritten: ObjectWritten
  changes?: ChangeListener
}

export class IndexReading {
  readonly lines: DeliveryLines
  readonly ready: Promise<void>
  readonly #stages: readonly Stage[]
  readonly #ready = Promise.withResolvers<void>()
  readonly #stopping = new AbortController()
  readonly #needs: InformerDependencies
  /** The stage in progress; undefined after the last one. */
  #stage: Stage | undefined
  #stopped = false

  /** @param capacity maximum of lines */
  constructor(needs: InformerDependencies, store: LogStore, capacity: number, listener: ReadingListener) {
    const lost = (why: string) => {
      if (!this.#stopped) listener.lost(why)
    }
    const onLost = () => lost('outcomes arrived before the segments that they refer to')
    this.lines = new DeliveryLines(capacity, onLost, listener.changes)
    this.#stages = createStages(needs, store, this.lines, {
      onRollback: () => lost('the cluster storage was restored to an earlier state'),
      onMissed: () => lost('outcomes may have been deleted before they were read'),
      objectWritten: listener.objectWritten,
    })
    this.#needs = needs
    this.#stage = this.#stages[0]
    this.ready = this.#ready.promise
  }

  /** What is being read, as text; undefined if all was read. */
  get progress(): string | undefined {
    return this.#stage && `loading ${this.#stage.what} (${this.loaded})`
  }

  /** `1,200 deliveries so far`. */
  get loaded(): string {
    return `${counted(this.lines.size, 'delivery', 'deliveries')} so far`
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
    this.#stopping.abort()
    await Promise.all(this.#stages.map(({ informer }) => informer.stop()))
  }

  async #read(): Promise<void> {
    const { signal } = this.#stopping
    const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    for (const stage of this.#stages) {
      this.#stage = stage
      if (stage.before) await this.#retry(stage.before)
      if (this.#stopped) return
      stage.informer.start()
      await Promise.race([stage.informer.synced, stopped])
      if (this.#stopped) return
    }
    this.#stage = undefined
    this.#ready.resolve()
  }

  async #retry(read: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#needs
    for (let failures = 1; !this.#stopped; failures += 1) {
      try {
        return await read()
      } catch (error) {
        log.warn('shard_claims_read_failed', 'failed to read shard claims; retrying', { error })
        await sleep(clock, exponentialMs(failures, CLAIMS_RETRY), this.#stopping.signal)
      }
    }
  }
}

const CLAIMS_RETRY = { firstMs: 1000, longestMs: 30_000 }

/** Reads the OutcomeSegments in which shards change hands, which are few. @throws ApiError */
async function readClaims(
  store: Pick<LogStore, 'page'>,
  lines: Pick<DeliveryLines, 'claimsRead'>,
): Promise<void> {
  const found: OutcomeBatch[] = []
  let version = 0
  let from: string | undefined
  do {
    const page = await store.page('outcomes', { limit: LARGEST_LOG_PAGE, claimsOnly: true }, from)
    for (const stored of page.segments) found.push(withClaimsOnly(readOutcomeBatch(stored)))
    version ||= page.version
    from = page.next
  } while (from !== undefined)
  lines.claimsRead(found, version)
}

type Losses = { onRollback: () => void; onMissed: () => void }

function createStages(
  needs: InformerDependencies,
  store: LogStore,
  lines: DeliveryLines,
  { onRollback, onMissed, objectWritten }: Losses & { objectWritten: ObjectWritten },
): readonly Stage[] {
  let claimsRead: { at: DualTimestamp; version: number } | undefined
  const whole = { pageSize: LOG_PAGE, largestPage: LARGEST_LOG_PAGE }
  const segments = store.feed<LogSegment>('events', {
    ...whole,
    decode: readLiveSegment,
    store: new SegmentStore(lines, onRollback),
  })
  const outcomes = store.feed<OutcomeBatch>('outcomes', {
    ...whole,
    decode: readOutcomeBatch,
    store: new OutcomeStore(lines, onRollback),
    // Outcomes are deleted after the deliveries that they describe, but for claims: later records count only with them.
    gapDetection: { afterMs: MISSED_AFTER_MS, onGap: onMissed, readBefore: () => claimsRead },
  })
  const objects = new Informer<ObjectDelivery>(
    {
      type: webhookDeliveries,
      query: { limit: OBJECT_PAGE },
      decode: readObjectDelivery,
      handler: { applied: () => undefined },
      compareEveryMs: COMPARE_EVERY_MS,
      store: new ObjectDeliveryStore(lines, onRollback, objectWritten),
    },
    needs,
  )
  return [
    { what: 'the events of the delivery log', informer: segments },
    {
      what: 'the outcomes of the delivery log',
      informer: outcomes,
      before: async () => {
        const at = dualTimestamp(needs.clock)
        await readClaims(store, lines)
        claimsRead = { at, version: lines.claimsUpTo }
      },
    },
    { what: 'the deliveries that have objects', informer: objects },
  ]
}
