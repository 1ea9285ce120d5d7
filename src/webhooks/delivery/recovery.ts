import { parsePosition } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, messageId, nameOfMessage } from '../../apis/ids.ts'
import { isRestored } from '../../apis/meta.ts'
import {
  type DeliveryOutline,
  deliveryOutline,
  type WebhookDelivery,
  webhookDeliveryKind,
} from '../../apis/webhook-delivery.ts'
import { type RawObject, UnreadableError } from '../../kube/client.ts'
import { inGroups } from '../../lib/semaphore.ts'
import { copyString } from '../../lib/text.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import { INLINE_PAYLOAD_BYTES } from '../log/codec.ts'
import { cancelObject, exhaustObject, leaveUnread } from './attempt.ts'
import { type EngineContext, retryUntilDurable, startOwnedWork } from './context.ts'
import type { DeliveryEngine } from './engine.ts'
import type { LogFollower } from './log-follower.ts'
import { deliveryRef } from './objects.ts'
import {
  type Delivery,
  type EndpointQueue,
  IN_OBJECT,
  type OpenEntry,
  type UnresolvedEntry,
} from './queue.ts'
import { isSameDelivery, offsetKey } from './remote-outcomes.ts'
import { longestWaitMs } from './retry-schedule.ts'
import { endsDelivery, isFinal } from './status.ts'

/** What a WebhookDelivery says to be, and whether Davit has made it. */

/** Organizations by the UIDs of their endpoints. */
export type Owners = ReadonlyMap<string, string>

function organizationsByEndpoint(directory: Pick<EndpointDirectory, 'all'>): Owners {
  return new Map(
    [...directory.all()].map(({ endpoint: { metadata } }) => [metadata.uid, metadata.namespace ?? '']),
  )
}

/**
 * Somebody has made it by hand: it has not the name that its delivery has, or says to be of another organization's endpoint, whose
 * lane it must not get into.
 */
function isForeign({ metadata, spec }: DeliveryOutline, owners: Owners): boolean {
  const event = nameOfMessage(spec.deliveryId)
  if (event === undefined) return false
  const owner = owners.get(spec.endpointUid) ?? metadata.namespace
  return owner !== metadata.namespace || metadata.name !== deliveryObjectName(event, spec.endpointUid)
}

/** Undefined when it is of no place in the log. */
function deliveryFromObject(engine: DeliveryEngine, outline: DeliveryOutline): Delivery | undefined {
  const { spec, status, metadata } = outline
  const name = nameOfMessage(spec.deliveryId)
  const position = parsePosition(spec.position)
  if (name === undefined || position === undefined) return undefined
  const { clock, waitScale } = engine.ctx
  const attempts = status?.attemptCount ?? 0
  const latest = clock.now() + longestWaitMs(attempts, waitScale)
  const dueAt = Math.min(latest, Date.parse(status?.nextAttemptAt ?? '') || 0)
  return {
    name: copyString(name),
    queue: engine.queueFor({ namespace: metadata.namespace, name: spec.endpoint, uid: spec.endpointUid }),
    version: position.version,
    index: position.index,
    acceptedAt: Date.parse(metadata.creationTimestamp) || 0,
    ofWebhookEvent: true,
    bytes: spec.payload ?? INLINE_PAYLOAD_BYTES,
    attempts,
    dueAt,
    stage: dueAt > clock.now() ? 'waiting' : 'queued',
    left: false,
    storage: IN_OBJECT,
  }
}

/** Deliveries that are found with an object that shows no end, though their end was decided on before. */

/** Counted as exhausted, but the process ended before the delivery's own end was written. */
function wasCounted(engine: DeliveryEngine, { name, queue }: Delivery): boolean {
  return engine.ctx.directory.find(queue.endpoint)?.endpoint.status?.lastCounted === messageId(name)
}

/** Before another delivery of the endpoint is counted, after which nothing would tell that this one was. */
function exhaustCounted(engine: DeliveryEngine, delivery: Delivery): void {
  const { ctx } = engine
  delivery.stage = 'sending'
  const exhaust = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await exhaustObject(ctx, delivery, object)
    else ctx.dropped(delivery)
  }
  const end = () => retryUntilDurable(ctx, 'the end of an exhausted delivery', exhaust)
  const { queue } = delivery
  startOwnedWork(ctx, queue, () => ctx.streaks.exhausted(queue.endpoint, messageId(delivery.name), end))
}

function cancelRestored(engine: DeliveryEngine, delivery: Delivery): void {
  const { ctx } = engine
  delivery.stage = 'sending'
  const cancel = async () => {
    const object = await ctx.objects.find(delivery)
    if (object) await cancelObject(ctx, delivery, object, 'Restored')
    else ctx.dropped(delivery)
  }
  startOwnedWork(ctx, delivery.queue, () => retryUntilDurable(ctx, 'the end of a restored delivery', cancel))
}

/**
 * WebhookDelivery objects as a list shows them, brought together with what the log says: what has not ended has its place
 * in its lane, and what is known to have ended is pending no longer.
 */

/** Looked for by their names at a time. */
const AT_A_TIME = 16
/** What a replica has ended so long before it died, it has said; and of so many at most it is said for it. */
const UNRECORDED_MS = 5 * 60_000
const MAX_RECORDED = 5000

export type RecoveryOptions = {
  engine: DeliveryEngine
  follower: LogFollower
  /** Those that are taken over. */
  shards: ReadonlySet<number>
  /** What has an object is taken out of it. */
  unresolved: Map<string, UnresolvedEntry>
  /** Of these shards. */
  lanes: readonly EndpointQueue[]
}

type Written = { spec: { writtenAt: string }; metadata: { creationTimestamp?: string | undefined } }

function wasRestored({ spec, metadata }: Written): boolean {
  return isRestored(Date.parse(spec.writtenAt), Date.parse(metadata.creationTimestamp ?? ''))
}

export class RecoveryFromObjects {
  readonly #engine: DeliveryEngine
  readonly #follower: LogFollower
  readonly #shards: ReadonlySet<number>
  readonly #unresolved: Map<string, UnresolvedEntry>
  /** Deliveries of those shards that have to have an object, as far as it was not found, by `<namespace>/<name>`. */
  readonly #missing = new Map<string, Delivery>()
  /** Where a list is started again, what was seen before is not taken twice. */
  readonly #seen = new Set<string>()
  /** Organizations by the UIDs of their endpoints. */
  readonly #owners: ReadonlyMap<string, string>
  #told = 0
  #unfinished = 0
  #newest = 0

  constructor({ engine, follower, shards, unresolved, lanes }: RecoveryOptions) {
    this.#engine = engine
    this.#follower = follower
    this.#shards = shards
    this.#unresolved = unresolved
    this.#owners = organizationsByEndpoint(engine.ctx.directory)
    for (const lane of lanes)
      for (const delivery of lane.members()) {
        const { namespace, name } = deliveryRef(delivery)
        const key = `${namespace}/${name}`
        if (!unresolved.has(key)) this.#missing.set(key, delivery)
      }
  }

  /** Those of the shards taken over that have not ended. */
  get unfinished(): number {
    return this.#unfinished
  }

  /** The newest segment of which one of them is, by version. */
  get newest(): number {
    return this.#newest
  }

  /** @returns undefined when it cannot be read or was seen before */
  addObject(raw: RawObject): DeliveryOutline | undefined {
    const { namespace, name } = raw.metadata
    const key = `${namespace}/${name}`
    const known = this.#missing.get(key)
    const { data: outline } = deliveryOutline.safeParse(raw)
    if (outline && isForeign(outline, this.#owners)) {
      this.#complain(outline)
      return undefined
    }
    this.#missing.delete(key)
    if (!outline) {
      this.#engine.ctx.log.warn('A WebhookDelivery cannot be read', { name })
      this.#leaveUnread(key, known)
      return undefined
    }
    if (this.#seen.has(outline.metadata.uid)) return undefined
    this.#seen.add(outline.metadata.uid)
    const delivery = deliveryFromObject(this.#engine, outline)
    if (delivery && this.#shards.has(delivery.queue.shard)) this.#takeOurs(outline, delivery, known)
    else if (delivery?.queue.driver === 'others') this.#takeOthers(outline, delivery)
    return outline
  }

  /**
   * All objects were seen. What has to have one, and was not among them (somebody may have taken its label away), is looked
   * for by its name. @throws Error when given up
   */
  async lookUpMissing(signal: AbortSignal): Promise<void> {
    await inGroups([...this.#missing], AT_A_TIME, ([key, delivery]) => this.#lookUp(key, delivery, signal))
  }

  async #lookUp(key: string, delivery: Delivery, signal: AbortSignal): Promise<void> {
    const { ctx } = this.#engine
    const giveUp = AbortSignal.any([ctx.giveUp, signal])
    const object = await retryUntilDurable({ ...ctx, giveUp }, 'reading a delivery', () =>
      findOrUnread(ctx, delivery),
    )
    if (delivery.left) return
    if (!object) ctx.dropped(delivery)
    else if (object instanceof UnreadableError) this.#leaveUnread(key, delivery)
    else {
      const outline = deliveryOutline.parse(object)
      const isOther = isForeign(outline, this.#owners)
      const found = isOther ? undefined : deliveryFromObject(this.#engine, outline)
      if (found) this.#takeOurs(outline, found, delivery)
      else if (isOther) {
        // Its own object is gone: this one has only its name.
        this.#complain(outline)
        ctx.dropped(delivery)
      }
    }
  }

  #complain({ metadata: { namespace, name } }: DeliveryOutline): void {
    this.#engine.ctx.log.warn('A WebhookDelivery is none that Davit has made, and is left alone', {
      namespace,
      name,
    })
  }

  /** It is there, so it has not ended; when it is mended it goes on. Until then those behind it do. */
  #leaveUnread(key: string, known: Delivery | undefined): void {
    const unresolved = this.#unresolved.get(key)
    if (unresolved) this.#close(key, unresolved)
    const delivery = unresolved?.open.delivery ?? known
    if (!delivery || delivery.left) return
    delivery.storage = IN_OBJECT
    this.#engine.objectBacked.add(delivery)
    leaveUnread(this.#engine.ctx, delivery, new UnreadableError(webhookDeliveryKind.kind, key))
  }

  #takeOurs({ metadata, spec, status }: DeliveryOutline, found: Delivery, missing?: Delivery): void {
    const key = `${metadata.namespace}/${metadata.name}`
    const unresolved = this.#unresolved.get(key) ?? this.#shownSince(found)
    const isEnded = isFinal(status?.state)
    const isBehind = !isEnded && attemptsIn(unresolved) > (status?.attemptCount ?? 0)
    if (!isEnded) this.#unfinished += 1
    // One that says to be of a segment from after itself was made over a store that had been set back.
    const isPossible = found.version < Number(metadata.resourceVersion)
    if (!isEnded && isPossible) this.#newest = Math.max(this.#newest, found.version)
    // The log goes on with it.
    if (isBehind) return
    if (unresolved) this.#close(key, unresolved)
    const known = unresolved?.open.delivery ?? this.#known(found) ?? missing
    const pending = known?.left ? undefined : known
    if (!isEnded) this.#goOn({ spec, metadata }, pending, found)
    else if (pending) this.#end(pending, unresolved)
    else if (unresolved) this.#tellUnlessKnown(unresolved, found)
    else this.#tellEnded(status?.completedAt, found)
  }

  /** Also where another replica has said that an object has it, and this one has not let go of it yet. */
  #known(found: Delivery): Delivery | undefined {
    const known = this.#engine.objectBacked.at(found) ?? this.#engine.remoteOutcomes.deferredAt(found)
    return known && isSameDelivery(known, found) ? known : undefined
  }

  /**
   * Whoever ended it may have died before it could say so. What the log says is not said again, as far as that is remembered; and
   * whoever has handed the shard over has said it.
   */
  #tellEnded(completedAt: string | undefined, { version, index, queue }: Delivery): void {
    const { ctx } = this.#engine
    const isOld = !(ctx.clock.now() - Date.parse(completedAt ?? '') < UNRECORDED_MS)
    const { recordedEnds, claims } = this.#follower
    const told = recordedEnds?.get(offsetKey({ version, index }))
    // What was said after somebody else had claimed the shard is nothing to those who know that.
    const isHeard = told !== undefined && !claims.isFenced(queue.shard, told.version, told.writer)
    const isTold = recordedEnds ? isHeard : claims.isInOrder(queue.shard)
    if (isOld || isTold || this.#told >= MAX_RECORDED) return
    this.#told += 1
    ctx.background(ctx.outcomes.record({ kind: 'ended', position: { version, index } }), queue)
  }

  /** This replica has ended it, when what it said was void: the others learn now that an object has it, and that it has ended. */
  #tellUnlessKnown({ open }: UnresolvedEntry, { version, index, queue }: Delivery): void {
    if (open.records.some(endsDelivery)) return
    const { ctx } = this.#engine
    ctx.background(ctx.outcomes.record({ kind: 'ended', position: { version, index } }), queue)
  }

  /** An entry that is open, and whose segment was shown while objects were listed. */
  #shownSince(found: Delivery): UnresolvedEntry | undefined {
    const opened = this.#engine.ctx.segments.at(found.version)
    const open = opened?.open.get(found.index)
    return opened && open && isOf(open, found) ? { opened, open } : undefined
  }

  #goOn({ spec, metadata }: Written, pending: Delivery | undefined, found: Delivery): void {
    const { attempts, dueAt, stage } = found
    const delivery = pending ? Object.assign(pending, { attempts, dueAt, stage, storage: IN_OBJECT }) : found
    this.#engine.objectBacked.addFound(delivery)
    if (pending) this.#engine.resume(pending)
    else this.#engine.add(found)
    if (wasRestored({ spec, metadata })) cancelRestored(this.#engine, delivery)
    else if (wasCounted(this.#engine, delivery)) exhaustCounted(this.#engine, delivery)
  }

  /** Where the log does not say that it has ended, the others have to be told. */
  #end(pending: Delivery, unresolved: UnresolvedEntry | undefined): void {
    if (!unresolved?.open.records.some(endsDelivery)) this.#engine.objectBacked.add(pending)
    this.#engine.end(pending)
  }

  /** The entry's object is there; that was not recorded. */
  #close(key: string, { opened, open }: UnresolvedEntry): void {
    this.#unresolved.delete(key)
    const { ctx } = this.#engine
    const position = { version: opened.segment.version, index: open.entry.index }
    const { event, endpoint } = open.entry
    const lane = this.#engine.queueFor({ namespace: event.namespace, name: endpoint.name, uid: endpoint.uid })
    ctx.background(ctx.outcomes.record({ kind: 'moved', position }), lane)
  }

  /** Another replica drives it: what is still an entry of the log is shown when that says so. */
  #takeOthers({ status }: DeliveryOutline, found: Delivery): void {
    const { objectBacked, ctx } = this.#engine
    if (
      isFinal(status?.state) ||
      objectBacked.at(found) ||
      this.#follower.endsDuringList?.has(offsetKey(found))
    )
      return
    if (ctx.segments.at(found.version)?.open.has(found.index)) return
    found.stage = 'waiting'
    this.#engine.add(found)
    objectBacked.addFound(found)
  }
}

/** Undefined when it is gone. */
async function findOrUnread(
  ctx: EngineContext,
  delivery: Delivery,
): Promise<WebhookDelivery | UnreadableError | undefined> {
  try {
    return await ctx.objects.find(delivery)
  } catch (error) {
    if (error instanceof UnreadableError) return error
    throw error
  }
}

function isOf({ entry }: OpenEntry, { name, queue }: Delivery): boolean {
  return entry.event.id === name && entry.endpoint.uid === queue.endpoint.uid
}

function attemptsIn(unresolved: UnresolvedEntry | undefined): number {
  return unresolved?.open.records.filter(({ kind }) => kind !== 'reopened').length ?? 0
}
