import { isRestored } from '../../apis/meta.ts'
import {
  type ClaimRecord,
  isShardRecord,
  type OutcomeRecord,
  type ReleaseRecord,
} from '../../apis/outcome-segment.ts'
import type { CancelReason, WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'
import type { ShardClaims } from '../log/fencing.ts'
import { attemptsOf, endsDelivery, fold, isClosed, NO_RECORDS } from '../log/fold.ts'
import type { DedupeIndex } from '../log/idempotency-keys.ts'
import { OutcomeReadProgress } from '../log/reader.ts'
import type { LogDelivery, LoggedOutcomes, LogSegment } from '../log/store.ts'
import { waitForNext } from './attempt.ts'
import { startOwedWork, startOwnedWork } from './context.ts'
import type { Delivery, OpenEntry, OpenSegment, UnresolvedEntry } from './endpoint-queue.ts'
import type { DeliveryEngine } from './engine.ts'
import { statusFromLog } from './plan.ts'
import { promoteToObject, recordCreation } from './promotion.ts'
import { OutOfOrderRecords, offsetKey, type SequencedRecord } from './remote-deliveries.ts'
import { attemptBegunBefore, setAside } from './set-aside.ts'

/**
 * Resumes entries of the log that have no recorded end, when their shard is taken over: each is attempted again, gets the object
 * that it is owed, or is set aside.
 */

/** Called when all objects were read. Resolves when it is durable that this replica goes on with them. @returns how many */
export async function resumeEntries(
  engine: DeliveryEngine,
  unresolved: readonly UnresolvedEntry[],
): Promise<number> {
  await Promise.all(unresolved.map((one) => resumeEntry(engine, one)))
  for (const opened of new Set(unresolved.map((one) => one.opened))) engine.promotions.promoteLater(opened)
  return unresolved.length
}

/** Resumes an entry whose segment arrived after its shard was taken over. */
function resumeLateEntry(engine: DeliveryEngine, unresolved: UnresolvedEntry): void {
  const { opened, open } = unresolved
  const queue = engine.queueOf(open.entry)
  const position = { version: opened.segment.version, index: open.entry.index }
  // The takeover has found its object.
  if (!open.refused && engine.objectBacked.findEntry(position.version, open.entry))
    startOwnedWork(engine.ctx, queue, () => engine.ctx.outcomes.record({ kind: 'moved', position }))
  else startOwnedWork(engine.ctx, queue, () => resumeEntries(engine, [unresolved]))
}

async function resumeEntry(engine: DeliveryEngine, { opened, open }: UnresolvedEntry): Promise<void> {
  const { outcomes, clock } = engine.ctx
  const { entry, refused, state } = open
  const position = { version: opened.segment.version, index: entry.index }
  // It was closed while objects were read.
  if (opened.open.get(entry.index) !== open) return
  // A repeat, or restored from a backup.
  if (refused) {
    const queue = engine.queueOf(entry)
    return engine.runInBackground(outcomes.record({ kind: 'canceled', position, reason: refused }), queue)
  }
  const delivery = engine.resetEntry(opened, open)
  if (delivery.storage.kind === 'log') {
    // A replica that creates an object records that first.
    delivery.storage.objectMayExist = state !== NO_RECORDS
    delivery.storage.unansweredAt = clock.monotonic()
  }
  const begun = attemptBegunBefore(engine.ctx, delivery)
  if (attemptsOf(state).length > 0) promoteOwed(engine, delivery, statusFromLog(state))
  else if (begun?.isLikelyCause) promoteOwed(engine, delivery, setAside(engine.ctx, delivery, begun)({}))
  else {
    delivery.isSuspect = begun !== undefined
    delivery.stage = delivery.isSuspect ? 'waiting' : 'queued'
    engine.resume(delivery)
  }
}

/** Creates the object of a delivery whose status is known already. */
function promoteOwed({ ctx }: DeliveryEngine, delivery: Delivery, status: WebhookDeliveryStatus): void {
  const { storage } = delivery
  if (storage.kind !== 'log') return
  delivery.stage = 'sending'
  storage.status = status
  delivery.attempts = status.attemptCount ?? 0
  // A later takeover has set it back, and owes it what the log says by then.
  const wasReset = () => delivery.storage.kind === 'log' && delivery.storage !== storage
  startOwedWork(ctx, delivery.queue, async () => {
    if (delivery.left || wasReset()) return
    await recordCreation(ctx, delivery, storage)
    await promoteToObject(ctx, delivery, storage)
    if (!delivery.left && !wasReset()) waitForNext(ctx, delivery, storage.status)
  })
}

/**
 * Follows the delivery log: segments, and records about their entries, each in the order of the log. So every replica knows
 * every open delivery, and a takeover reads only objects. README.md explains what each record does.
 */

/** Minutes at full load. A replica that has not listed all objects by then records no ends for a predecessor. */
const MAX_RECORDED_ENDS = 500_000

export type LogFollowerOptions = {
  engine: DeliveryEngine
  keys: DedupeIndex
  writer: string
  /** More records than can be held refer to segments that have not arrived: only a restart can tell what is open. */
  onLost: () => void
  /** Another replica has claimed shards that this one drives. */
  onClaimedElsewhere: (shards: readonly number[]) => void
  /** By the record of another replica the entry has its object, whether it is pending or not. */
  onPromotedElsewhere?: (entry: LogDelivery, segment: string) => void
}

/** What is known of an entry when its segment arrives: records that came before it, and the bodies of the segment. */
type Arrived = { early: readonly SequencedRecord[] | undefined; bodies: LogSegment['bodies'] }

type KeyedEvent = { event: Parameters<DedupeIndex['isDuplicate']>[0]; eventIndex: number }

export class LogFollower {
  readonly #options: LogFollowerOptions
  readonly #engine: DeliveryEngine
  /** Offsets of deliveries that ended while a list of objects was read, which may still show them as pending. */
  endsDuringList: Set<number> | undefined
  /** Offsets of deliveries that ended by any record of the log, until all objects were listed once. */
  recordedEnds: Map<number, Pick<SequencedRecord, 'version' | 'writer'>> | undefined = new Map()
  readonly #early = new OutOfOrderRecords()
  readonly #progress: OutcomeReadProgress
  #waiting: { version: number; resolve: () => void }[] = []

  constructor(options: LogFollowerOptions) {
    this.#options = options
    this.#engine = options.engine
    this.#progress = new OutcomeReadProgress(options.engine.ctx.clock.now())
  }

  addSegment(segment: LogSegment): void {
    const { ctx } = this.#engine
    this.#options.keys.segmentSeen(segment.version, Math.min(segment.writtenAt, ctx.clock.now()))
    this.#noteUndelivered(segment)
    const opened = ctx.segments.add(segment)
    if (!opened) {
      // Known, or behind the mark: only its keys still matter.
      for (const entry of segment.deliveries) this.#isDuplicate(segment, entry)
      return
    }
    const { name, version, unreadable: lines } = segment
    if (lines > 0)
      ctx.log.error('deliveries_unreadable', 'failed to read deliveries from the log; skipped', {
        segment: name,
        lines,
      })
    const early = this.#early.take(version)
    for (const open of [...opened.open.values()])
      this.#addEntry(opened, open, { early: early.get(open.entry.index), bodies: segment.bodies })
    this.#engine.promotions.promoteLater(opened)
  }

  applyOutcomes(
    outcomes: Pick<LoggedOutcomes, 'version' | 'writer' | 'records'> & { createdAt?: number },
  ): void {
    const { version, writer, records } = outcomes
    this.#progress.advance(outcomes)
    const { clock } = this.#engine.ctx
    const at = outcomes.createdAt ?? clock.now()
    for (const record of records) {
      if (isShardRecord(record)) this.#applyClaim(record, { version, writer, createdAt: at })
      else if (record.kind === 'begin') this.#engine.ctx.begun.add({ ...record, version, writer, at })
      else this.#applyRecord({ record, version, writer })
    }
    this.#early.forget(this.#engine.ctx.segments.lowWater)
    if (this.#early.isFull) this.#options.onLost()
    for (const { resolve } of this.#waiting.filter((one) => one.version <= version)) resolve()
    this.#waiting = this.#waiting.filter((one) => one.version > version)
  }

  get claims(): ShardClaims {
    return this.#engine.ctx.claims
  }

  outcomesListed(): void {
    this.#progress.listComplete()
  }

  get version(): number {
    return this.#progress.version
  }

  /** Resolves when outcomes up to that version were applied, or when aborted. */
  async seen(version: number, signal: AbortSignal): Promise<void> {
    if (this.version >= version || signal.aborted) return
    await new Promise<void>((resolve) => {
      this.#waiting.push({ version, resolve })
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }

  holdsClaims(shards: ReadonlySet<number>): boolean {
    return this.claims.isHeldBy(shards, this.#options.writer)
  }

  /** Open entries of these shards, oldest first. Those that were only counted get a delivery. */
  *openEntriesOf(shards: ReadonlySet<number>): IterableIterator<UnresolvedEntry> {
    for (const opened of this.#engine.ctx.segments.values())
      for (const open of opened.open.values()) {
        if (!shards.has(shardOf(open.entry.endpoint.uid))) continue
        if (open.counted) this.#engine.addEntry(opened, open)
        yield { opened, open }
      }
  }

  /** A replica that claims a shard knows the claims before. If the shard is still this replica's, it claims it again. */
  #applyClaim(
    record: ClaimRecord | ReleaseRecord,
    segment: { version: number; writer: string; createdAt: number },
  ): void {
    const { writer } = segment
    const claimed = this.claims.apply(record, segment, this.#progress.from)
    const ours = claimed.filter((shard) => this.#engine.queues.isOurs(shard))
    if (writer !== this.#options.writer && ours.length > 0) this.#options.onClaimedElsewhere(ours)
  }

  #addEntry(opened: OpenSegment, open: OpenEntry, { early = [], bodies }: Arrived): void {
    const { entry } = open
    const refused = this.#refusalOf(opened.segment, entry)
    if (refused) open.refused = refused
    const queue = this.#engine.queues.get(entry.endpoint.uid)
    const isOurs = this.#engine.queues.isOurs(queue?.shard ?? shardOf(entry.endpoint.uid))
    if (!isOurs && !refused) this.#engine.countEntry(opened, open, queue)
    else if (!refused && !queue?.paused) this.#keepBody(opened, entry, bodies)
    for (const one of early) this.#applyRecord(one)
    if (!isOurs || opened.open.get(entry.index) !== open) return
    if (refused || this.#mayBeStarted(opened.segment.version, open))
      resumeLateEntry(this.#engine, { opened, open })
    else this.#engine.addEntry(opened, open)
  }

  #keepBody({ bodies }: OpenSegment, { eventIndex }: LogDelivery, texts: LogSegment['bodies']): void {
    const body = bodies.get(eventIndex)
    const text = texts[eventIndex]
    if (body && text !== undefined) this.#engine.ctx.payloads.keep(body, text)
  }

  /** Whether the previous owner may have started it, if this replica took over its shard before the segment arrived. */
  #mayBeStarted(version: number, { entry, state }: OpenEntry): boolean {
    const shard = shardOf(entry.endpoint.uid)
    const isLate = version < this.claims.since(shard) && !this.claims.wasReleasedCleanly(shard)
    return isLate || state !== NO_RECORDS || this.#engine.objectBacked.findEntry(version, entry) !== undefined
  }

  #applyRecord(sequenced: SequencedRecord): void {
    const { record, version, writer } = sequenced
    const { position } = record
    const { segments } = this.#engine.ctx
    // The writer has not noticed that the store was set back: another segment will get that version.
    if (position.version >= version) return
    if (record.kind === 'ended' || endsDelivery(record)) this.#noteEnd(sequenced)
    const opened = segments.at(position.version)
    if (record.kind === 'ended') {
      this.#engine.ctx.begun.delete(position)
      this.#applyEnd(sequenced)
    }
    if (!opened && position.version > segments.lowWater) {
      // The watches have no mutual order: its segment may still arrive.
      this.#early.add(sequenced)
      return
    }
    if (record.kind === 'ended') return
    const open = opened?.open.get(position.index)
    if (!opened || !open) {
      const delivery = this.#engine.objectBacked.at(position)
      // A late record of an earlier owner says nothing about the attempt of the present one.
      const isVoid = delivery !== undefined && this.claims.isFenced(delivery.queue.shard, version, writer)
      if (!isVoid) this.#noteOutcome(record)
    } else if (!this.claims.isFenced(shardOfEntry(open), version, writer))
      this.#applyToEntry(opened, open, sequenced)
  }

  #applyToEntry(opened: OpenSegment, open: OpenEntry, sequenced: SequencedRecord): void {
    const { record, writer } = sequenced
    const state = fold(open.state, sequenced, (attempt) => attempt)
    if (state === open.state) return
    open.state = state
    this.#noteOutcome(record)
    if (writer !== this.#options.writer) this.#applyRemote(opened, open, record)
    else if (record.kind === 'moved') this.#applyOwnPromotion(open)
    if (!isClosed(state)) return
    this.#engine.uncountEntry(opened, open)
    this.#engine.ctx.segments.close(opened, record.position.index)
  }

  #noteOutcome({ kind, position }: OutcomeRecord): void {
    // Neither tells how an attempt has ended.
    if (kind !== 'moved' && kind !== 'creating') this.#engine.ctx.begun.delete(position)
  }

  #noteEnd({ record, version, writer }: SequencedRecord): void {
    if (this.recordedEnds?.size === MAX_RECORDED_ENDS) this.recordedEnds = undefined
    this.recordedEnds?.set(offsetKey(record.position), { version, writer })
  }

  #applyEnd({ record: { position }, version, writer }: SequencedRecord): void {
    this.endsDuringList?.add(offsetKey(position))
    if (writer === this.#options.writer) return
    const delivery = this.#engine.objectBacked.at(position)
    if (delivery && this.claims.isFenced(delivery.queue.shard, version, writer)) return
    this.#engine.remoteOutcomes.applyEnd(position)
  }

  #applyRemote(opened: OpenSegment, open: OpenEntry, record: OutcomeRecord): void {
    const isMove = record.kind === 'moved'
    const isEnd = open.state.end !== 'none'
    if (isEnd) this.endsDuringList?.add(offsetKey(record.position))
    if (isMove) this.#options.onPromotedElsewhere?.(open.entry, opened.segment.name)
    if (isEnd) this.#engine.uncountEntry(opened, open)
    else if (open.counted && isMove) this.#engine.addEntry(opened, open)
    if (open.delivery && (isEnd || isMove))
      this.#engine.remoteOutcomes.apply(open.delivery, isEnd ? 'ended' : 'promoted')
  }

  /** The log has the record before this replica learns that its write succeeded; others may add records meanwhile. */
  #applyOwnPromotion({ delivery, state }: OpenEntry): void {
    if (delivery?.storage.kind === 'log')
      this.#engine.remoteOutcomes.apply(delivery, state.end === 'none' ? 'promoted' : 'ended')
  }

  /** An event that matched no endpoint holds its key as well: a later event with that key must not be delivered. */
  #noteUndelivered(segment: LogSegment): void {
    const { undelivered = [], deliveries } = segment
    if (undelivered.length === 0 || isRestored(segment.writtenAt, segment.createdAt)) return
    const keyed: KeyedEvent[] = [...undelivered, ...deliveries]
    for (const one of keyed.sort((a, b) => a.eventIndex - b.eventIndex)) this.#isDuplicate(segment, one)
  }

  /** Why an entry must not be sent. One that a backup has restored does not hold its key. */
  #refusalOf(segment: OpenSegment['segment'], entry: LogDelivery): CancelReason | undefined {
    if (isRestored(segment.writtenAt, segment.createdAt)) return 'Restored'
    return this.#isDuplicate(segment, entry) ? 'Duplicate' : undefined
  }

  #isDuplicate({ version }: Pick<LogSegment, 'version'>, { event, eventIndex }: KeyedEvent): boolean {
    // Most events have no key, and each replica checks the deliveries of all.
    if (event.key === undefined) return false
    return this.#options.keys.isDuplicate(event, version, eventIndex, this.#engine.ctx.clock.monotonic())
  }
}

/** Taken from its queue if there is one: a hash for every record of all replicas would cost more than the rest of the check. */
function shardOfEntry({ delivery, counted, entry }: OpenEntry): number {
  return (delivery?.queue ?? counted)?.shard ?? shardOf(entry.endpoint.uid)
}
