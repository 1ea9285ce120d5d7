import { type Position, parsePosition } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId, nameOfMessage } from '../../apis/ids.ts'
import { isRestored } from '../../apis/meta.ts'
import {
  type DeliveryOutline,
  deliveryOutline,
  type WebhookDelivery,
  type WebhookDeliveryStatus,
  webhookDelivery,
  webhookDeliveryKind,
} from '../../apis/webhook-delivery.ts'
import { MAX_DATA_BYTES } from '../../apis/webhook-event.ts'
import { type RawObject, UnreadableError } from '../../kube/client.ts'
import { inGroups } from '../../lib/semaphore.ts'
import { copyString } from '../../lib/text.ts'
import { type Begun, MAX_BEGUN } from '../log/crash-series.ts'
import { attemptsOf } from '../log/fold.ts'
import { cancelObject, leaveUnread, writeDecidedStatus } from './attempt.ts'
import { retryUntilDurable, startOwedWork } from './context.ts'
import {
  type Delivery,
  dueTime,
  type EndpointQueue,
  IN_OBJECT,
  stateOf,
  type UnresolvedEntry,
} from './endpoint-queue.ts'
import type { DeliveryEngine } from './engine.ts'
import type { LogFollower } from './log-follower.ts'
import { deliveryRef } from './objects.ts'
import { exhaustedStatus, hasEndedController, isFinal } from './plan.ts'
import { isSameDelivery, offsetKey } from './remote-deliveries.ts'
import { attemptBegunBefore, setAside } from './set-aside.ts'

/** Recovery from objects, as a takeover lists them: reconciles each WebhookDelivery with what the log says. See README.md. */

const AT_A_TIME = 16
/** An end that is older was recorded by the replica that wrote it; of the others at most so many are recorded for it. */
const UNRECORDED_MS = 5 * 60_000
const MAX_RECORDED = 5000

function deliveryFromObject(engine: DeliveryEngine, outline: DeliveryOutline): Delivery | undefined {
  const { spec, status, metadata } = outline
  const name = nameOfMessage(spec.deliveryId)
  const position = parsePosition(spec.position)
  if (name === undefined || position === undefined) return undefined
  const attempts = status?.attemptCount ?? 0
  const dueAt = dueTime({ attempts, dueAt: Date.parse(status?.nextAttemptAt ?? '') || 0 }, engine.ctx)
  return {
    name: copyString(name),
    queue: engine.queueFor({ namespace: metadata.namespace, name: spec.endpoint, uid: spec.endpointUid }),
    version: position.version,
    index: position.index,
    acceptedAt: Date.parse(metadata.creationTimestamp) || 0,
    ofWebhookEvent: true,
    bodyBytes: spec.payload ?? spec.payloadRef?.bytes ?? MAX_DATA_BYTES,
    // An object has its own copy of a small body.
    sharesBody: spec.payload === undefined,
    attempts,
    dueAt,
    stage: dueAt > engine.ctx.clock.now() ? 'waiting' : 'queued',
    left: false,
    storage: IN_OBJECT,
  }
}

/** Ends a delivery that came from a backup, or was counted as exhausted by a process that ended before it wrote the status. */
function endDecided({ ctx }: DeliveryEngine, delivery: Delivery, wasRestored: boolean): void {
  const { queue } = delivery
  const id = messageId(delivery.name)
  const wasCounted = ctx.directory.find(queue.endpoint)?.endpoint.status?.lastCounted === id
  if (!wasRestored && !wasCounted) return
  delivery.stage = 'sending'
  const operation = wasRestored ? 'cancel restored delivery' : 'store end of exhausted delivery'
  const write = () =>
    retryUntilDurable(ctx, operation, async () => {
      const object = await ctx.objects.find(delivery)
      if (!object) ctx.engine.drop(delivery)
      else if (wasRestored) await cancelObject(ctx, delivery, stateOf(object), 'Restored')
      else {
        const decide = (before: WebhookDeliveryStatus) => exhaustedStatus(before, ctx.clock.now())
        await writeDecidedStatus(ctx, delivery, stateOf(object), decide)
      }
    })
  const count = () =>
    retryUntilDurable(ctx, operation, () => ctx.streaks.exhausted(queue.endpoint, id, write))
  startOwedWork(ctx, queue, wasRestored ? write : count)
}

/** Whether it is known as the cause of an end, so that others which were begun before are not. An outline has no attempts. */
function wasSetAside(raw: RawObject): boolean {
  return hasEndedController(webhookDelivery.safeParse(raw).data?.status)
}

/** A delivery that an earlier owner has begun to send. It is `sending` until it is decided whether it is suspicious. */
type Parked = { delivery: Delivery; wasRestored: boolean }

export type RecoveryOptions = {
  engine: DeliveryEngine
  follower: LogFollower
  shards: ReadonlySet<number>
  /** Their open entries; those that have an object are removed. */
  unresolved: Map<string, UnresolvedEntry>
  queues: readonly EndpointQueue[]
}

export class RecoveryFromObjects {
  readonly #engine: DeliveryEngine
  readonly #follower: LogFollower
  readonly #shards: ReadonlySet<number>
  readonly #unresolved: Map<string, UnresolvedEntry>
  /** Deliveries of those shards that must have an object which was not found yet, by `<namespace>/<name>`. */
  readonly #missing = new Map<string, Delivery>()
  readonly #seen = new Set<string>()
  /** By the UID of their endpoints. */
  readonly #organizations: ReadonlyMap<string, string>
  /** Ended, perhaps without a record of that. */
  readonly #unrecorded: Delivery[] = []
  readonly #parked: Parked[] = []
  /** Objects of those shards that show no end. */
  unfinished = 0
  /** The newest segment that one of them came from. */
  newest = 0

  constructor({ engine, follower, shards, unresolved, queues }: RecoveryOptions) {
    this.#engine = engine
    this.#follower = follower
    this.#shards = shards
    this.#unresolved = unresolved
    const endpoints = [...engine.ctx.directory.all()].map(({ endpoint: { metadata } }) => metadata)
    this.#organizations = new Map(endpoints.map(({ uid, namespace = '' }) => [uid, namespace]))
    for (const queue of queues)
      for (const delivery of queue.members()) {
        const { namespace, name } = deliveryRef(delivery)
        const key = `${namespace}/${name}`
        if (!unresolved.has(key)) this.#missing.set(key, delivery)
      }
  }

  addObject(raw: RawObject): DeliveryOutline | undefined {
    const { namespace, name } = raw.metadata
    const key = `${namespace}/${name}`
    const known = this.#missing.get(key)
    const { data: outline } = deliveryOutline.safeParse(raw)
    if (outline && this.#isForeign(outline)) return undefined
    this.#missing.delete(key)
    if (!outline) {
      this.#engine.ctx.log.warn('delivery_object_unreadable', 'failed to read a WebhookDelivery', { name })
      this.#leaveUnread(key, known)
      return undefined
    }
    if (this.#seen.has(outline.metadata.uid)) return undefined
    this.#seen.add(outline.metadata.uid)
    const delivery = deliveryFromObject(this.#engine, outline)
    if (delivery && this.#engine.ctx.begun.size > 0 && !wasSetAside(raw))
      this.#noteKnownOutcomes(delivery, outline)
    if (delivery && this.#shards.has(delivery.queue.shard)) this.#addOurs(outline, delivery, known)
    else if (delivery?.queue.driver === 'others') this.#addRemote(outline, delivery)
    return outline
  }

  /** Looks up objects that the list did not contain: their label may have been removed. @throws Error when given up */
  async lookUpMissing(signal: AbortSignal): Promise<void> {
    await inGroups([...this.#missing], AT_A_TIME, ([key, delivery]) => this.#lookUp(key, delivery, signal))
  }

  async #lookUp(key: string, delivery: Delivery, signal: AbortSignal): Promise<void> {
    const { ctx } = this.#engine
    const object = await this.#find(delivery, signal)
    if (delivery.left) return
    if (!object) return ctx.engine.drop(delivery)
    if (object instanceof UnreadableError) return this.#leaveUnread(key, delivery)
    const outline = deliveryOutline.parse(object)
    // Its own object is gone, and a foreign one has the name.
    if (this.#isForeign(outline)) return ctx.engine.drop(delivery)
    const found = deliveryFromObject(this.#engine, outline)
    if (!found) return
    if (!hasEndedController(object.status)) this.#noteKnownOutcomes(found, outline)
    this.#addOurs(outline, found, delivery)
  }

  async #find(
    delivery: Delivery,
    signal: AbortSignal,
  ): Promise<WebhookDelivery | UnreadableError | undefined> {
    const { ctx } = this.#engine
    const giveUp = AbortSignal.any([ctx.giveUp, signal])
    return await retryUntilDurable({ ...ctx, giveUp }, 'read WebhookDelivery', () =>
      ctx.objects.find(delivery).catch((error: unknown) => {
        if (error instanceof UnreadableError) return error
        throw error
      }),
    )
  }

  #noteKnownOutcomes(position: Position, { status }: Pick<DeliveryOutline, 'status'>): void {
    const attempts = isFinal(status?.state) ? Number.POSITIVE_INFINITY : (status?.attemptCount ?? 0)
    this.#engine.ctx.begun.deleteKnown(position, attempts)
  }

  /**
   * Decides which deliveries are suspicious. First it learns the outcomes of attempts that were begun alone in other shards, after which the
   * suspects of these are no longer the last of their writer. Call it when all objects were added, and before entries are resumed.
   * @param isRead whether the log is known up to that version @throws Error when given up
   */
  async resumeSuspects(isRead: (version: number) => boolean, signal: AbortSignal): Promise<void> {
    const unresolved = [...this.#unresolved.values()]
    const { begun } = this.#engine.ctx
    const isBegun = ({ opened, open }: UnresolvedEntry) =>
      begun.at({ version: opened.segment.version, index: open.entry.index }, 0) !== undefined
    if (this.#parked.length > 0 || unresolved.some(isBegun)) {
      const elsewhere = this.#aloneElsewhere(isRead).slice(-MAX_BEGUN)
      await inGroups(elsewhere, AT_A_TIME, (delivery) => this.#learnOutcome(delivery, signal))
    }
    for (const parked of this.#parked.splice(0)) this.#unpark(parked)
  }

  /** Deliveries with objects in other shards that an earlier owner has begun alone. Forgets attempts of those that are not pending. */
  #aloneElsewhere(isRead: (version: number) => boolean): Delivery[] {
    const { objectBacked, remoteOutcomes, ctx } = this.#engine
    const found: Delivery[] = []
    for (const { position, writer } of [...ctx.begun.alone()]) {
      const delivery = objectBacked.at(position) ?? remoteOutcomes.deferredAt(position)
      const isEntry = ctx.segments.at(position.version)?.open.has(position.index) === true
      if (!delivery && !isEntry && isRead(position.version)) ctx.begun.delete(position)
      if (delivery && writer !== ctx.writer && !this.#shards.has(delivery.queue.shard)) found.push(delivery)
    }
    return found
  }

  async #learnOutcome(delivery: Delivery, signal: AbortSignal): Promise<void> {
    const object = await this.#find(delivery, signal)
    if (object instanceof UnreadableError) return
    if (!object) this.#engine.ctx.begun.delete(delivery)
    // Another replica has decided that this attempt was the cause.
    else if (!hasEndedController(object.status)) this.#noteKnownOutcomes(delivery, object)
  }

  /** Made by hand: it has another name than its delivery, or refers to an endpoint of another organization. */
  #isForeign({ metadata: { namespace, name }, spec }: DeliveryOutline): boolean {
    const event = nameOfMessage(spec.deliveryId)
    if (event === undefined) return false
    const owner = this.#organizations.get(spec.endpointUid) ?? namespace
    if (owner === namespace && name === deliveryObjectName(event, spec.endpointUid)) return false
    const fields = { namespace, name }
    const message = 'ignored a WebhookDelivery that Davit did not create'
    this.#engine.ctx.log.warn('foreign_delivery_ignored', message, fields)
    return true
  }

  /** The object exists, so the delivery has not ended. It continues when it is repaired; until then those behind it do. */
  #leaveUnread(key: string, known: Delivery | undefined): void {
    const unresolved = this.#unresolved.get(key)
    if (unresolved) this.#close(key, unresolved)
    const delivery = unresolved?.open.delivery ?? known
    if (!delivery || delivery.left) return
    delivery.storage = IN_OBJECT
    this.#engine.objectBacked.add(delivery)
    leaveUnread(this.#engine.ctx, delivery, new UnreadableError(webhookDeliveryKind.kind, key))
  }

  #addOurs(outline: DeliveryOutline, found: Delivery, missing?: Delivery): void {
    const { metadata, status } = outline
    const key = `${metadata.namespace}/${metadata.name}`
    const unresolved = this.#unresolved.get(key) ?? this.#openEntry(found)
    const isEnded = isFinal(status?.state)
    if (!isEnded) this.unfinished += 1
    // An object that states a segment newer than itself is from another cluster, or from before the store was set back.
    const isPossible = found.version < Number(metadata.resourceVersion)
    if (!isEnded && isPossible) this.newest = Math.max(this.newest, found.version)
    const attempts = unresolved ? attemptsOf(unresolved.open.state).length : 0
    if (!isEnded && attempts > (status?.attemptCount ?? 0)) return
    if (unresolved) this.#close(key, unresolved)
    const known = unresolved?.open.delivery ?? this.#known(found) ?? missing
    const pending = known?.left ? undefined : known
    if (!isEnded) this.#continue(outline, pending, found)
    else if (pending || unresolved) this.#addEnded(pending, unresolved)
    else if (isPossible) this.#addUnrecorded(status?.completedAt, found)
  }

  #addEnded(pending: Delivery | undefined, unresolved: UnresolvedEntry | undefined): void {
    const isRecorded = unresolved !== undefined && unresolved.open.state.end !== 'none'
    if (pending) {
      // Without a record of its end, `end` writes one.
      if (!isRecorded) this.#engine.objectBacked.add(pending)
      this.#engine.end(pending)
    } else if (unresolved && !isRecorded) {
      // Recorded under a void claim, if at all: the others learn of its object and its end only now.
      const { opened, open } = unresolved
      const queue = this.#engine.queueOf(open.entry)
      this.#engine.recordEnd({ version: opened.segment.version, index: open.entry.index, queue })
    }
  }

  /** Also one that another replica has promoted and this one has not let go of yet. */
  #known(found: Delivery): Delivery | undefined {
    const known = this.#engine.objectBacked.at(found) ?? this.#engine.remoteOutcomes.deferredAt(found)
    return known && isSameDelivery(known, found) ? known : undefined
  }

  /** For an end whose writer may have died before recording it. An orderly handoff implies the record. */
  #addUnrecorded(completedAt: string | undefined, found: Delivery): void {
    const isOld = !(this.#engine.ctx.clock.now() - Date.parse(completedAt ?? '') < UNRECORDED_MS)
    const { recordedEnds, claims } = this.#follower
    const { shard } = found.queue
    const record = recordedEnds?.get(offsetKey(found))
    // A record under a void claim does not count.
    const isRecorded = recordedEnds
      ? record !== undefined && !claims.isFenced(shard, record.version, record.writer)
      : claims.wasReleasedCleanly(shard)
    if (!isOld && !isRecorded && this.#unrecorded.length < MAX_RECORDED) this.#unrecorded.push(found)
  }

  /**
   * Records ends that may not have been recorded. Call it when all objects were added: the log has a position alone, and an object may state
   * that of another delivery, whose end it would be for the other replicas.
   */
  recordEnds(): void {
    for (const found of this.#unrecorded) if (!this.#isOfAnother(found)) this.#engine.recordEnd(found)
  }

  /** Whether another delivery is pending at the position that the object states. Every replica knows all that are. */
  #isOfAnother(found: Delivery): boolean {
    const { ctx, objectBacked, remoteOutcomes } = this.#engine
    const pending = objectBacked.at(found) ?? remoteOutcomes.deferredAt(found)
    const isEntry = ctx.segments.at(found.version)?.open.has(found.index) === true
    return (pending !== undefined && !isSameDelivery(pending, found)) || (isEntry && !this.#openEntry(found))
  }

  #openEntry({ version, index, name, queue }: Delivery): UnresolvedEntry | undefined {
    const opened = this.#engine.ctx.segments.at(version)
    const open = opened?.open.get(index)
    if (!opened || !open) return undefined
    const { event, endpoint } = open.entry
    return event.id === name && endpoint.uid === queue.endpoint.uid ? { opened, open } : undefined
  }

  #continue({ spec, metadata }: DeliveryOutline, pending: Delivery | undefined, found: Delivery): void {
    const { ctx } = this.#engine
    const isParked = attemptBegunBefore(ctx, found) !== undefined && !found.queue.closed
    if (isParked) found.stage = 'sending'
    const { attempts, dueAt, stage } = found
    const delivery = pending
      ? Object.assign(pending, { attempts, dueAt, stage, isSuspect: false, storage: IN_OBJECT })
      : found
    this.#engine.objectBacked.addFound(delivery)
    if (pending) this.#engine.resume(pending)
    else this.#engine.add(found)
    const wasRestored = isRestored(Date.parse(spec.writtenAt), Date.parse(metadata.creationTimestamp))
    if (isParked) this.#parked.push({ delivery, wasRestored })
    else endDecided(this.#engine, delivery, wasRestored)
  }

  #unpark({ delivery, wasRestored }: Parked): void {
    const { ctx } = this.#engine
    if (delivery.left || delivery.stage !== 'sending') return
    const begun = attemptBegunBefore(ctx, delivery)
    if (begun?.isLikelyCause) {
      this.#setAside(delivery, begun)
      return
    }
    delivery.isSuspect = begun !== undefined
    delivery.stage = begun || delivery.dueAt > ctx.clock.now() ? 'waiting' : 'queued'
    this.#engine.resume(delivery)
    endDecided(this.#engine, delivery, wasRestored)
  }

  /** Its attempt ended the owner before: it counts, and the next one waits. */
  #setAside(delivery: Delivery, begun: Begun): void {
    const { ctx } = this.#engine
    const decide = setAside(ctx, delivery, begun)
    startOwedWork(ctx, delivery.queue, () =>
      retryUntilDurable(ctx, 'store attempt that crashed a controller', async () => {
        const object = await ctx.objects.find(delivery)
        if (!object) return ctx.engine.drop(delivery)
        await writeDecidedStatus(ctx, delivery, stateOf(object), decide)
      }),
    )
  }

  #close(key: string, { opened, open: { entry } }: UnresolvedEntry): void {
    this.#unresolved.delete(key)
    const queue = this.#engine.queueOf(entry)
    const position = { version: opened.segment.version, index: entry.index }
    const { outcomes } = this.#engine.ctx
    this.#engine.runInBackground(outcomes.record({ kind: 'moved', position }), queue)
  }

  /** Counts a delivery of another replica. An entry that is still open is promoted by its record. */
  #addRemote({ status }: DeliveryOutline, found: Delivery): void {
    const { objectBacked, ctx } = this.#engine
    const hasEnded = isFinal(status?.state) || this.#follower.endsDuringList?.has(offsetKey(found))
    if (hasEnded || objectBacked.at(found) || ctx.segments.at(found.version)?.open.has(found.index)) return
    found.stage = 'waiting'
    this.#engine.add(found)
    objectBacked.addFound(found)
  }
}
