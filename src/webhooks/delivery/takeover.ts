import { secrets } from '../../apis/core-kinds.ts'
import { deliveryObjectName } from '../../apis/ids.ts'
import { SHARD_LABEL } from '../../apis/meta.ts'
import { type DeliveryOutline, webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { SIGNING_KEYS_LABEL, webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { isApiError, type Page, type RawObject, type ResourceReader } from '../../kube/client.ts'
import { pollUntil, sleep } from '../../lib/sleep.ts'
import type { EndpointDirectory } from '../endpoints/directory.ts'
import { readKeys, type StoredKeys } from '../endpoints/signing-keys.ts'
import { retryUntilDurable } from './context.ts'
import type { DeliveryEngine } from './engine.ts'
import { type LogFollower, resumeEntries } from './log-follower.ts'
import type { Delivery, EndpointQueue, UnresolvedEntry } from './queue.ts'
import { RecoveryFromObjects } from './recovery.ts'
import { isFinal } from './status.ts'

/**
 * Looks, slowly, at deliveries that an object shows and another replica drives: what has ended there, or is gone, is pending no
 * longer, although nobody says so. Whoever ended it may have died before that was in the log.
 */

const EVERY_MS = 1000
const AT_A_TIME = 4
/** Of those that this replica drives so many are passed over at a time. */
const MOST_PASSED_OVER = 5000
/** Between the first looks at the same delivery. */
const ROUND_MS = 10 * 60_000

export class RemoteDeliverySweeper {
  readonly #engine: DeliveryEngine
  #rest: Iterator<Delivery> | undefined
  #roundAt: number

  constructor(engine: DeliveryEngine) {
    this.#engine = engine
    this.#roundAt = engine.ctx.clock.monotonic() + ROUND_MS
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.#engine.ctx.clock, EVERY_MS, signal)
      if (!signal.aborted) await Promise.all(this.#next().map((delivery) => this.#look(delivery)))
    }
  }

  /** A few of those that others drive, oldest first. */
  #next(): Delivery[] {
    const now = this.#engine.ctx.clock.monotonic()
    if (!this.#rest && now < this.#roundAt) return []
    if (!this.#rest) this.#roundAt = now + ROUND_MS
    // What is added meanwhile comes last, and what has left does not come.
    this.#rest ??= this.#engine.objectBacked.values()
    const chosen: Delivery[] = []
    for (let seen = 0; seen < MOST_PASSED_OVER && chosen.length < AT_A_TIME; seen += 1) {
      const { value, done } = this.#rest.next()
      if (done) {
        this.#rest = undefined
        break
      }
      if (value.queue.driver === 'others') chosen.push(value)
    }
    return chosen
  }

  async #look(delivery: Delivery): Promise<void> {
    const { objects, giveUp, log } = this.#engine.ctx
    try {
      const object = await objects.find(delivery)
      if (object && !isFinal(object.status?.state)) return
      // It may have come to this replica meanwhile, which then knows what became of it.
      if (delivery.queue.driver === 'others' && this.#engine.objectBacked.has(delivery))
        this.#engine.leave(delivery)
    } catch (error) {
      if (!giveUp.aborted) log.info('A delivery of another replica could not be looked at', { error })
    }
  }
}

/**
 * Taking shards over, after a crash of this replica or another, or because replicas come and go: everything that the one
 * before may have written is known before anything is begun. First a claim in the log, which makes void what it may
 * still write there; once that claim is read back, so is all before it. Then endpoints, their keys and objects, each as a consistent
 * read. What has no end by then goes on where it was.
 */

export type ShardTakeoverOptions = {
  engine: DeliveryEngine
  follower: LogFollower
  directory: EndpointDirectory
  resources: ResourceReader
  /** Every segment of the log up to this version was shown by the watch. */
  syncedVersion: () => number
  /** Told of every delivery that was found, of all shards the first time; `isOurs` if it is of those that are taken over. */
  onFound?: (outline: DeliveryOutline, isOurs: boolean) => void
}

/** What was found: deliveries that have an object and no end, and entries that went on from the log. */
export type TakeoverResult = { unfinished: number; reopened: number }

/** The adapter asks for fewer where they are large; a list in pages half as large takes a third longer. */
const PAGE = 2500
const ENDPOINTS_PAGE = 500
/** Secrets are read with the endpoints, which are larger: where that takes longer something is wrong with them. */
const KEYS_MS = 15_000
/** For the record that shards were handed over: without it they are taken over as from a replica that died. */
const RELEASE_MS = 2000

export class ShardTakeover {
  readonly #options: ShardTakeoverOptions
  /** Objects of all shards were listed: what comes to them since is in the log. */
  #isComplete = false
  /** What this replica has claimed and not handed over. */
  readonly #claimed = new Set<number>()
  /** Of those, where all that the one before has left is known. */
  readonly #adopted = new Set<number>()
  #running: Promise<void> = Promise.resolve()

  constructor(options: ShardTakeoverOptions) {
    this.#options = options
  }

  /**
   * One after the other: what is found is brought together with what the log says by then.
   * @throws ApiError, Error what may pass by itself, or when given up: it can be begun again
   */
  async start(shards: ReadonlySet<number>, signal: AbortSignal): Promise<TakeoverResult> {
    const { engine, follower } = this.#options
    const before = this.#running
    const mine = Promise.withResolvers<void>()
    this.#running = mine.promise
    try {
      await before
      signal.throwIfAborted()
      const numbers = [...shards].sort((a, b) => a - b)
      // It may be written late, when another one has claimed them: then it says nothing.
      const claim = { kind: 'claim', shards: numbers, after: follower.version } as const
      const version = await engine.ctx.outcomes.record(claim, { isUrgent: true })
      for (const shard of shards) {
        this.#claimed.add(shard)
        this.#adopted.delete(shard)
      }
      await follower.seen(version, signal)
      signal.throwIfAborted()
      if (!follower.holdsClaims(shards)) throw new Error('another replica has claimed a shard meanwhile')
      await Promise.all([this.#learnEndpoints(signal), this.#learnKeys(signal)])
      const taken = await this.#adopt(shards, signal)
      for (const shard of shards) this.#adopted.add(shard)
      return taken
    } finally {
      mine.resolve()
    }
  }

  /** Hands them over. Resolves when nothing of them is under way, and that can be read in the log. */
  async end(shards: ReadonlySet<number>): Promise<void> {
    const { follower, engine } = this.#options
    const { ctx } = engine
    const lanes = engine.queues.inShards(shards)
    // What is shown of their segments from here on is looked at by whoever has them next.
    const known = new Set([...shards].filter((shard) => this.#isKnown(shard)))
    const areAtRest = await engine.release(shards)
    const claimed = [...shards].filter((shard) => this.#claimed.delete(shard))
    for (const shard of claimed) this.#adopted.delete(shard)
    // At the end of the process what is under way is given up unanswered.
    if (!areAtRest || ctx.giveUp.aborted) return
    const doubtful = doubtfulIn(lanes)
    const inOrder = claimed.filter((one) => known.has(one) && !doubtful.has(one) && this.#isOurs(one))
    if (inOrder.length === 0) return
    const release = { kind: 'release', shards: inOrder, after: follower.version } as const
    const recorded = ctx.outcomes.record(release, { isUrgent: true })
    const isOver = recorded.then(
      () => undefined,
      () => undefined,
    )
    await Promise.race([isOver, sleep(ctx.clock, RELEASE_MS, ctx.giveUp)])
  }

  /** Whether what the one before has begun in this shard, and may not have ended, is known: it has left nothing, or all was read. */
  #isKnown(shard: number): boolean {
    const { engine, follower, syncedVersion } = this.#options
    if (follower.claims.isInOrder(shard)) return true
    const claimed = follower.claims.since(shard)
    return this.#adopted.has(shard) && Math.max(syncedVersion(), engine.ctx.segments.lowWater) >= claimed
  }

  /** Whether all that this replica has begun for the shard was answered, or is told by the log. */
  #isOurs(shard: number): boolean {
    const { follower, engine } = this.#options
    // What another one has claimed since is not its to hand over: who has not read that claim would believe it.
    if (!follower.holdsClaims(new Set([shard]))) return false
    // Calls that were under way when the Lease lapsed were given up, and not answered.
    return !engine.ctx.shards.epochs?.current(shard).isRevoked
  }

  /** What the one before has written in their status is decided on here, and what it saw the end of is not sent to. */
  async #learnEndpoints(signal: AbortSignal): Promise<void> {
    const { directory } = this.#options
    const uids = new Set<string>()
    let version = ''
    for await (const page of this.#pages(webhookEndpoints, { limit: ENDPOINTS_PAGE }, signal)) {
      if (page.resourceVersion !== version) uids.clear()
      version = page.resourceVersion
      for (const raw of page.items) {
        uids.add(raw.metadata.uid ?? '')
        const { data } = webhookEndpoint.safeParse(raw)
        if (data) directory.applyRead(data)
      }
    }
    directory.applyList(uids, Number(version))
  }

  /**
   * A key that the one before has ended signs nothing here, though the watch of its Secret may be behind. Where Secrets cannot be read,
   * the watch has to do: nothing is to wait for that.
   */
  async #learnKeys(signal: AbortSignal): Promise<void> {
    const { clock, log, giveUp } = this.#options.engine.ctx
    const over = new AbortController()
    const cancel = clock.after(KEYS_MS, () => over.abort())
    try {
      await this.#readKeys(AbortSignal.any([signal, over.signal]))
    } catch (error) {
      signal.throwIfAborted()
      if (giveUp.aborted || !over.signal.aborted) throw error
      log.warn('Signing keys could not be read; what the watch has told of them is used', { error })
    } finally {
      cancel()
    }
  }

  async #readKeys(signal: AbortSignal): Promise<void> {
    const { directory, engine } = this.#options
    const labelSelector = `${SIGNING_KEYS_LABEL}=true`
    const query = { namespace: engine.ctx.namespace, labelSelector, limit: ENDPOINTS_PAGE }
    for await (const page of this.#pages(secrets, query, signal))
      for (const raw of page.items) {
        const held = keysIn(raw)
        if (held) directory.applyKeys(held.namespace, held.endpoint, held.keys)
      }
  }

  async #adopt(shards: ReadonlySet<number>, signal: AbortSignal): Promise<TakeoverResult> {
    const { engine, follower, onFound } = this.#options
    const unresolved = new Map<string, UnresolvedEntry>()
    for (const found of follower.openEntriesOf(shards)) unresolved.set(keyOf(found), found)
    const lanes = engine.queues.acquire(shards)
    for (const lane of lanes) if (!engine.ctx.directory.find(lane.endpoint)) engine.verifyEndpoint(lane)
    const objects = new RecoveryFromObjects({ engine, follower, shards, unresolved, lanes })
    const isComplete = this.#isComplete
    if (!isComplete) follower.endsDuringList = new Set()
    const query = isComplete ? { labelSelector: `${SHARD_LABEL} in (${[...shards].join()})` } : {}
    try {
      for await (const page of this.#pages(webhookDeliveries, { limit: PAGE, ...query }, signal)) {
        for (const raw of page.items) {
          const outline = objects.addObject(raw)
          if (outline) onFound?.(outline, shards.has(shardOf(outline.spec.endpointUid)))
        }
      }
    } finally {
      follower.endsDuringList = undefined
    }
    this.#isComplete = true
    follower.recordedEnds = undefined
    await this.#untilShown(objects.newest, signal)
    await objects.lookUpMissing(signal)
    const reopened = await resumeEntries(engine, [...unresolved.values()], follower.claims)
    return { unfinished: objects.unfinished, reopened }
  }

  /** The watch of segments may be behind what the one before has acted on. */
  async #untilShown(version: number, signal: AbortSignal): Promise<void> {
    const { engine, syncedVersion } = this.#options
    const isShown = () => syncedVersion() >= version || engine.ctx.segments.lowWater >= version
    await pollUntil(engine.ctx.clock, isShown, signal)
    if (!isShown()) signal.throwIfAborted()
  }

  /** Pages of a consistent list; from the first again where it took longer than the server keeps old versions. */
  async *#pages(
    type: Parameters<ResourceReader['list']>[0],
    query: Parameters<ResourceReader['list']>[1],
    signal: AbortSignal,
  ): AsyncGenerator<Page> {
    const { resources, engine } = this.#options
    const giveUp = AbortSignal.any([engine.ctx.giveUp, signal])
    const ask = (from?: string) =>
      retryUntilDurable(
        { ...engine.ctx, giveUp },
        `reading ${type.plural}`,
        async (): Promise<Page | undefined> => {
          signal.throwIfAborted()
          return await pageOf(() => resources.list(type, query, from))
        },
      )
    let asked = ask()
    for (;;) {
      const page = await asked
      // The API server makes the next page while this one is taken in.
      if (page === undefined || page.continue !== undefined) asked = ask(page?.continue)
      asked.catch(() => undefined)
      if (page) yield page
      if (page && page.continue === undefined) return
    }
  }
}

/**
 * Shards of entries whose object may still come, by a call of this replica whose answer was lost, without a record that tells
 * whoever has them next to expect it.
 */
function doubtfulIn(lanes: readonly EndpointQueue[]): ReadonlySet<number> {
  const isDoubtful = ({ storage, index }: Delivery) =>
    storage.kind === 'log' &&
    storage.objectMayExist === true &&
    storage.segment.open.get(index)?.records.length === 0
  return new Set(lanes.filter((lane) => [...lane.members()].some(isDoubtful)).map(({ shard }) => shard))
}

/** Undefined where they are damaged, which the watch tells. */
function keysIn(raw: RawObject): StoredKeys | undefined {
  try {
    return readKeys(raw)
  } catch {
    return undefined
  }
}

/** Undefined when it has expired. */
async function pageOf(list: () => Promise<Page>): Promise<Page | undefined> {
  try {
    return await list()
  } catch (error) {
    if (isApiError(error, 'Gone')) return undefined
    throw error
  }
}

function keyOf({ open: { entry } }: UnresolvedEntry): string {
  return `${entry.event.namespace}/${deliveryObjectName(entry.event.id, entry.endpoint.uid)}`
}
