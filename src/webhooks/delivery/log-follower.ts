import { messageId } from '../../apis/ids.ts'
import { isRestored } from '../../apis/meta.ts'
import type { ClaimRecord, OutcomeRecord, ReleaseRecord } from '../../apis/outcome-segment.ts'
import type { CancelReason, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import { endpointReference } from '../endpoints/directory.ts'
import { ShardClaims } from '../log/claims.ts'
import type { DedupeIndex } from '../log/dedupe.ts'
import { OutcomeReadProgress } from '../log/reader.ts'
import type { LogDelivery, LoggedOutcomes, LogSegment } from '../log/store.ts'
import { startOwnedWork } from './context.ts'
import { countEntry, type DeliveryEngine, uncountEntry } from './engine.ts'
import { promoteToObject } from './promotion.ts'
import type { Delivery, OpenEntry, OpenSegment, UnresolvedEntry } from './queue.ts'
import { OutOfOrderRecords, offsetKey, type SequencedRecord } from './remote-outcomes.ts'
import { closesEntry, endsDelivery, setAsideStatus, statusFromRecords } from './status.ts'

/** Ends an entry of the log that is not to be sent: a repeat, or one that came from a backup. */
function refuseEntry(engine: DeliveryEngine, { segment }: OpenSegment, { entry, refused }: OpenEntry): void {
  if (!refused) return
  const { event, endpoint, index } = entry
  const lane = engine.queueFor({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
  const position = { version: segment.version, index }
  engine.ctx.background(engine.ctx.outcomes.record({ kind: 'canceled', position, reason: refused }), lane)
}

/** Entries of the log whose end nobody has recorded, when their shard is taken over. */

/** An entry that so many starts did not bring to an end is set aside. Those after a hand-over in order do not count. */
const MAX_STARTS = 2

/** How the shards of entries came to this replica. */
type Claims = Pick<ShardClaims, 'isInOrder'>

/**
 * All objects were seen: what has none is attempted (again), or gets the object that it is owed. What replicas
 * ended over again and again is set aside.
 * @returns how many; when it is durable that this one goes on with them
 */
export async function resumeEntries(
  engine: DeliveryEngine,
  left: readonly UnresolvedEntry[],
  claims: Claims,
): Promise<number> {
  const segments = new Set<OpenSegment>()
  const reopened: Promise<unknown>[] = []
  for (const unresolved of left) {
    segments.add(unresolved.opened)
    reopened.push(resumeEntry(engine, unresolved, claims))
  }
  for (const opened of segments) engine.promoteLater(opened)
  await Promise.all(reopened)
  return left.length
}

/** An entry of this replica's shards whose segment was shown only after they were taken over. */
function resumeLateEntry(engine: DeliveryEngine, unresolved: UnresolvedEntry, claims: Claims): void {
  const { opened, open } = unresolved
  const { event, endpoint, index } = open.entry
  const lane = engine.queueFor({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
  const position = { version: opened.segment.version, index }
  // Its object was found when the shard was taken over.
  if (!open.refused && engine.objectBacked.findEntry(position.version, open.entry))
    startOwnedWork(engine.ctx, lane, () => engine.ctx.outcomes.record({ kind: 'moved', position }))
  else startOwnedWork(engine.ctx, lane, () => resumeEntries(engine, [unresolved], claims))
}

async function resumeEntry(
  engine: DeliveryEngine,
  { opened, open }: UnresolvedEntry,
  claims: Claims,
): Promise<void> {
  // It was closed while objects were read.
  if (opened.open.get(open.entry.index) !== open) return
  if (open.refused) return refuseEntry(engine, opened, open)
  const attempted = open.records.filter(({ kind }) => kind !== 'reopened')
  const starts = open.records.length - attempted.length
  const delivery = engine.resetEntry(opened, open)
  const isInOrder = claims.isInOrder(delivery.queue.shard)
  if (delivery.storage.kind === 'log') {
    delivery.storage.objectMayExist = open.records.length > 0 || !isInOrder
    delivery.storage.unansweredAt = engine.ctx.clock.monotonic()
  }
  if (attempted.length > 0) promoteOwed(engine, delivery, statusFromRecords(attempted))
  else if (starts >= MAX_STARTS && !isInOrder) setAside(engine, delivery)
  else {
    delivery.stage = 'queued'
    engine.resume(delivery)
    const { version, index } = delivery
    if (!isInOrder) await engine.ctx.outcomes.record({ kind: 'reopened', position: { version, index } })
  }
}

function setAside(engine: DeliveryEngine, delivery: Delivery): void {
  const { ctx } = engine
  const id = messageId(delivery.name)
  const { endpoint } = delivery.queue
  const { namespace, name } = endpoint
  ctx.log.warn('A delivery was set aside', { delivery: id, namespace, endpoint: name })
  const view = ctx.directory.find(endpoint)
  if (view) {
    const message = `Davit ended, or lost its way to the API server, ${MAX_STARTS + 1} times while ${id} was under way; it goes on apart from the others, and later.`
    ctx.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Warning',
      reason: 'SetAside',
      message,
    })
  }
  promoteOwed(engine, delivery, setAsideStatus(ctx.clock.now(), ctx.waitScale))
}

/** What its object will say is known, the object is not there. */
function promoteOwed({ ctx }: DeliveryEngine, delivery: Delivery, status: WebhookDeliveryStatus): void {
  const { storage } = delivery
  if (storage.kind !== 'log') return
  delivery.stage = 'sending'
  storage.status = status
  delivery.attempts = status.attemptCount ?? 0
  const move = async () => {
    await promoteToObject(ctx, delivery, storage)
    if (delivery.left) return
    delivery.stage = 'waiting'
    delivery.dueAt = Date.parse(storage.status?.nextAttemptAt ?? '') || 0
    ctx.wait(delivery)
  }
  startOwnedWork(ctx, delivery.queue, move)
}

/**
 * Follows the delivery log: segments as they come, and what is recorded of their deliveries, each in the order of the log.
 * So every replica knows of every delivery that is not closed, and one that takes a shard over has nothing to read but
 * objects. Only entries of its own shards are queued here, and only of those this replica says anything.
 */

/** Minutes at full load; a replica that has not listed all objects by then tells nothing of what others have ended. */
const MAX_RECORDED_ENDS = 500_000

export type LogFollowerOptions = {
  engine: DeliveryEngine
  keys: DedupeIndex
  /** What this start of the replica writes under. */
  writer: string
  /** More is recorded of segments that were not shown than can be held: only a new start can tell what is open. */
  onLost: () => void
  /** Another replica has claimed shards that this one drives. */
  onClaimedElsewhere: (shards: readonly number[]) => void
  /** An entry has its object, by the word of another replica, whether it is pending or not. */
  onPromotedElsewhere?: (entry: LogDelivery, segment: string) => void
}

const NO_EARLY_RECORDS: readonly SequencedRecord[] = []

/** Where in a segment an event stands that may have a key. */
type KeyPlace = { event: Parameters<DedupeIndex['isDuplicate']>[0]; eventIndex: number }

export class LogFollower {
  readonly #engine: DeliveryEngine
  readonly #keys: DedupeIndex
  readonly #writer: string
  readonly #onLost: () => void
  readonly #onClaimedElsewhere: (shards: readonly number[]) => void
  readonly #onPromotedElsewhere: LogFollowerOptions['onPromotedElsewhere']
  /** Places of deliveries that have ended, while somebody reads a list that may still show them as pending. */
  endsDuringList: Set<number> | undefined
  /** Places of deliveries that have ended by what the log says, whoever says it, until all objects were listed once. */
  recordedEnds: Map<number, Pick<SequencedRecord, 'version' | 'writer'>> | undefined = new Map()
  readonly claims = new ShardClaims()
  readonly #early = new OutOfOrderRecords()
  readonly #known: OutcomeReadProgress
  #waiting: { version: number; resolve: () => void }[] = []

  constructor({ engine, keys, writer, onLost, onClaimedElsewhere, onPromotedElsewhere }: LogFollowerOptions) {
    this.#engine = engine
    this.#known = new OutcomeReadProgress(engine.ctx.clock.now())
    this.#keys = keys
    this.#writer = writer
    this.#onLost = onLost
    this.#onClaimedElsewhere = onClaimedElsewhere
    this.#onPromotedElsewhere = onPromotedElsewhere
  }

  /** Showing one again changes nothing. */
  addSegment(segment: LogSegment): void {
    const { ctx } = this.#engine
    this.#noteUnsent(segment)
    const opened = ctx.segments.add(segment)
    if (!opened) {
      // Known, or behind the mark: only its keys still matter.
      for (const entry of segment.deliveries) this.#isRepeat(segment, entry)
      return
    }
    const { name, version, unreadable: lines } = segment
    if (lines > 0)
      ctx.log.error('Deliveries of the log cannot be read and are left out', { segment: name, lines })
    const early = this.#early.take(version)
    for (const open of [...opened.open.values()])
      this.#takeEntry(opened, open, early.get(open.entry.index) ?? NO_EARLY_RECORDS)
    this.#engine.promoteLater(opened)
  }

  /** In the order of the log; this replica's own as well. */
  applyOutcomes(
    waitForVersion: Pick<LoggedOutcomes, 'version' | 'writer' | 'records'> & { createdAt?: number },
  ): void {
    const { version, writer, records } = waitForVersion
    this.#known.advance(waitForVersion)
    for (const record of records) {
      if (record.kind === 'claim' || record.kind === 'release') this.#takeOfShards(record, version, writer)
      else this.#takeRecord({ record, version, writer })
    }
    this.#early.forget(this.#engine.ctx.segments.lowWater)
    if (this.#early.isFull) this.#onLost()
    for (const { resolve } of this.#waiting.filter((one) => one.version <= version)) resolve()
    this.#waiting = this.#waiting.filter((one) => one.version > version)
  }

  /** The first list of outcomes was taken in; what comes now is told by the watch. */
  outcomesListed(): void {
    this.#known.listComplete()
  }

  /** Every segment of outcomes up to this version was taken in. */
  get version(): number {
    return this.#known.version
  }

  /** Resolves when every segment of outcomes up to that version was taken in, or when aborted. */
  async seen(version: number, signal: AbortSignal): Promise<void> {
    if (this.version >= version || signal.aborted) return
    await new Promise<void>((resolve) => {
      this.#waiting.push({ version, resolve })
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }

  /** Whether the log shows nobody's claim to these shards after this replica's. */
  holdsClaims(shards: ReadonlySet<number>): boolean {
    return this.claims.isHeldBy(shards, this.#writer)
  }

  /** Entries of these shards that are not closed, oldest first. Those that were only counted are in their lanes from here on. */
  *openEntriesOf(shards: ReadonlySet<number>): IterableIterator<{ opened: OpenSegment; open: OpenEntry }> {
    for (const opened of this.#engine.ctx.segments.values())
      for (const open of opened.open.values()) {
        if (!shards.has(shardOf(open.entry.endpoint.uid))) continue
        if (open.counted) this.#engine.addEntry(opened, open)
        yield { opened, open }
      }
  }

  /** Whoever has claimed what this replica drives knew that it does: if it is this one's all the same, it claims it anew. */
  #takeOfShards({ kind, shards, after }: ClaimRecord | ReleaseRecord, version: number, writer: string): void {
    if (after !== undefined && after < this.#known.from) {
      if (kind === 'claim') this.claims.markUnverifiable(shards, { version, writer })
      return
    }
    const said = { version, writer, after }
    if (kind === 'release') this.claims.recordRelease(shards, said)
    else {
      const claimed = this.claims.recordClaim(shards, said)
      const ours = claimed.filter((shard) => this.#engine.queues.isOurs(shard))
      if (writer !== this.#writer && ours.length > 0) this.#onClaimedElsewhere(ours)
    }
  }

  #takeEntry(opened: OpenSegment, open: OpenEntry, early: readonly SequencedRecord[]): void {
    const { segment } = opened
    const { entry } = open
    const refused = this.#refusalOf(segment, entry)
    if (refused) open.refused = refused
    const lane = this.#engine.queues.get(entry.endpoint.uid)
    if (!this.#engine.queues.isOurs(lane?.shard ?? shardOf(entry.endpoint.uid))) {
      if (!open.refused) countEntry(this.#engine, { opened, open, lane })
      for (const said of early) this.#takeRecord(said)
      return
    }
    for (const said of early) this.#takeRecord(said)
    if (opened.open.get(entry.index) !== open) return
    if (open.refused || this.#isBegun(segment.version, open))
      resumeLateEntry(this.#engine, { opened, open }, this.claims)
    else this.#engine.addEntry(opened, open)
  }

  /** The one before has begun it, or may have, and this replica took its shard over before it saw the segment. */
  #isBegun(version: number, { entry, records }: OpenEntry): boolean {
    const shard = shardOf(entry.endpoint.uid)
    const isLate = version < this.claims.since(shard) && !this.claims.isInOrder(shard)
    return isLate || records.length > 0 || this.#engine.objectBacked.findEntry(version, entry) !== undefined
  }

  #takeRecord(said: SequencedRecord): void {
    const { record, version, writer } = said
    const { segments } = this.#engine.ctx
    const { position } = record
    // Said by one who has not noticed yet that the store was set back: another segment will have that version.
    if (position.version >= version) return
    if (record.kind === 'ended' || endsDelivery(record)) this.#noteToldEnd(said)
    const opened = segments.at(position.version)
    // Its object may have been found.
    if (record.kind === 'ended') this.#ended(said)
    if (!opened && position.version > segments.lowWater) {
      // The watches have no mutual order: its segment may still have to come.
      this.#early.add(said)
      return
    }
    if (record.kind === 'ended') return
    const open = opened?.open.get(position.index)
    if (!opened || !open || this.claims.isFenced(shardOfEntry(open), version, writer)) return
    if (writer !== this.#writer) this.#showElsewhere(opened, open, record)
    else if (record.kind === 'moved') this.#showOwn(open)
    if (closesEntry(record)) {
      uncountEntry(this.#engine, opened, open)
      segments.close(opened, position.index)
    } else open.records = [...open.records, record]
  }

  #noteToldEnd({ record, version, writer }: SequencedRecord): void {
    if (this.recordedEnds?.size === MAX_RECORDED_ENDS) this.recordedEnds = undefined
    this.recordedEnds?.set(offsetKey(record.position), { version, writer })
  }

  /** What an object showed has ended, by the word of whoever drives it. */
  #ended({ record: { position }, version, writer }: SequencedRecord): void {
    this.endsDuringList?.add(offsetKey(position))
    const delivery = this.#engine.objectBacked.at(position)
    if (writer !== this.#writer && !(delivery && this.claims.isFenced(delivery.queue.shard, version, writer)))
      this.#engine.remoteOutcomes.applyEnd(position)
  }

  /** What another replica has recorded of a delivery, as far as it is pending here. */
  #showElsewhere(opened: OpenSegment, open: OpenEntry, record: OutcomeRecord): void {
    const { records, entry } = open
    const isEnd = endsDelivery(record) || (record.kind === 'moved' && records.some(endsDelivery))
    if (isEnd) this.endsDuringList?.add(offsetKey(record.position))
    if (record.kind === 'moved') this.#onPromotedElsewhere?.(entry, opened.segment.name)
    if (isEnd) uncountEntry(this.#engine, opened, open)
    else if (open.counted && record.kind === 'moved') this.#engine.addEntry(opened, open)
    const { delivery } = open
    if (!delivery || delivery.left) return
    if (isEnd) this.#engine.remoteOutcomes.told(delivery, 'ended')
    else if (record.kind === 'moved') this.#engine.remoteOutcomes.told(delivery, 'shown')
  }

  /** The log has it before this replica hears that it was written, which may take long; others may say more of it meanwhile. */
  #showOwn({ delivery, records }: OpenEntry): void {
    if (delivery?.storage.kind === 'log')
      this.#engine.remoteOutcomes.told(delivery, records.some(endsDelivery) ? 'ended' : 'shown')
  }

  /** Who was told that nobody gets an event must not see another place of its key delivered. */
  #noteUnsent(segment: LogSegment): void {
    const { undelivered = [], deliveries } = segment
    if (undelivered.length === 0 || isRestored(segment.writtenAt, segment.createdAt)) return
    const places = [
      ...undelivered.map(({ eventIndex, ...event }) => ({ eventIndex, event })),
      ...deliveries.map(({ eventIndex, event }) => ({ eventIndex, event })),
    ]
    places.sort((a, b) => a.eventIndex - b.eventIndex)
    for (const place of places) this.#isRepeat(segment, place)
  }

  /** Why it is not to be sent; a place that a backup has brought back is none of its key. */
  #refusalOf(segment: OpenSegment['segment'], entry: LogDelivery): CancelReason | undefined {
    if (isRestored(segment.writtenAt, segment.createdAt)) return 'Restored'
    return this.#isRepeat(segment, entry) ? 'Duplicate' : undefined
  }

  #isRepeat({ version }: Pick<LogSegment, 'version'>, { event, eventIndex }: KeyPlace): boolean {
    // Nearly all have none, and each replica asks for the deliveries of all.
    if (event.key === undefined) return false
    return this.#keys.isDuplicate(event, version, eventIndex, this.#engine.ctx.clock.monotonic())
  }
}

/** Its lane knows; a hash for every record of all replicas costs more than the rest of the check. */
function shardOfEntry({ delivery, counted, entry }: OpenEntry): number {
  return (delivery?.queue ?? counted)?.shard ?? shardOf(entry.endpoint.uid)
}
