import { deliverySegmentKind, deliverySegments } from '../../apis/delivery-segment.ts'
import { NAME_ENTROPY_BYTES, sortableName, timeOfName } from '../../apis/ids.ts'
import { API_VERSION, CLAIMS_LABEL, NO_BACKUP_LABEL, type ResourceType } from '../../apis/meta.ts'
import { outcomeSegmentKind, outcomeSegments } from '../../apis/outcome-segment.ts'
import {
  ApiError,
  findObject,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import { Informer, type InformerDependencies } from '../../kube/informer.ts'
import type { Watch } from '../../kube/watch-restarts.ts'
import { backoffMs, type Clock, pollUntil, type Random, sleep } from '../../lib/time.ts'
import type {
  AppendRules,
  Feed,
  LogStore,
  NewSegment,
  PageQuery,
  SegmentPage,
  Sequence,
  StoredSegment,
} from './log-store.ts'

/**
 * The delivery log in Kubernetes: segments are objects in Davit's namespace, whose names put the newest first. See "Writing" in README.md.
 */

/** Later than any clock; a name with such a time must leave later names to count on. */
const NEVER = 2 ** 47
/** If the watch was silent for longer, it may be broken: the list decides. */
const WATCH_SILENCE_MS = 15_000

type SegmentNamerOptions = {
  clock: Clock
  random: Random
  /** The first name of a list of the sequence; undefined if it is empty. @throws ApiError */
  first: () => Promise<string | undefined>
}

/**
 * Names of the segments of one sequence. A list by name must start with the last write, even if a writer's clock is ahead: so each name
 * is newer than all that its writer has made or seen, and has the clock's time only if that is later.
 */
export class SegmentNamer {
  readonly #options: SegmentNamerOptions
  /** The time of the newest name, milliseconds since 1970. */
  #newest = 0
  #observedAt = Number.NEGATIVE_INFINITY

  constructor(options: SegmentNamerOptions) {
    this.#options = options
  }

  /** A name newer than all that existed some seconds ago. @throws ApiError if the newest name cannot be read */
  async next(): Promise<string> {
    const { clock, random, first } = this.#options
    if (clock.monotonic() - this.#observedAt > WATCH_SILENCE_MS) {
      const asked = clock.monotonic()
      this.observe((await first()) ?? '')
      this.#observedAt = asked
    }
    this.#newest = Math.max(Math.floor(clock.now()), this.#newest + 1)
    return sortableName(this.#newest, random.bytes(NAME_ENTROPY_BYTES))
  }

  /** A name from the watch, of any writer. Names that Davit did not make have no time. */
  observe(name: string): void {
    this.#observedAt = this.#options.clock.monotonic()
    const time = timeOfName(name)
    if (time < NEVER) this.#newest = Math.max(this.#newest, time)
  }
}

export type IdempotentCreateOptions = AppendRules & { clock: Clock; random: Random }

/** Readers of the log go back by more than this. */
const NAME_LIFE_MS = 20_000
const RETRY_WAITS = { firstMs: 50, longestMs: 5000 }

type Resources = ResourceReader & ResourceWriter

/**
 * Creates an object exactly once, even if an answer is lost: a retry uses the same name. A name that is too old to be the newest is
 * replaced, if the object does not exist.
 * @param make an object under a unique name, newer than all that exist
 * @throws ApiError with a deadline: permanent errors at once, transient ones after it
 */
export async function createIdempotently(
  resources: Resources,
  type: ResourceType,
  make: () => Promise<RawObject>,
  options: IdempotentCreateOptions,
): Promise<RawObject> {
  const { clock, random, mayBegin, mayTry, signal } = options
  const started = clock.monotonic()
  let draft: { object: RawObject; namedAt: number } | undefined
  const write = async (): Promise<RawObject> => {
    const now = clock.monotonic()
    if (draft && now - draft.namedAt > NAME_LIFE_MS) {
      const written = await findObject(resources, type, draft.object.metadata)
      if (written) return written
      draft = undefined
    }
    draft ??= { object: await make(), namedAt: now }
    if (mayBegin?.() === false) throw new WaitedTooLong()
    try {
      return await resources.create(type, draft.object, { answer: 'metadata' })
    } catch (error) {
      // An earlier try wrote it.
      if (isApiError(error, 'AlreadyExists')) return await resources.get(type, draft.object.metadata)
      throw error
    }
  }
  for (let failures = 1; ; failures += 1) {
    if (mayTry) await pollUntil(clock, mayTry, signal)
    try {
      return await write()
    } catch (error) {
      const retryAfter = isApiError(error) ? (error.retryAfterMs ?? 0) : 0
      const ms = Math.max(retryAfter, backoffMs(failures, RETRY_WAITS, random))
      if (isPermanent(error, clock.monotonic() - started + ms, options)) throw error
      await sleep(clock, ms, signal)
    }
  }
}

/** This try wrote nothing; an earlier one may have. */
class WaitedTooLong extends ApiError {
  constructor() {
    super('Unavailable', 'not written: the write waited longer than the lookups before it are valid')
  }
}

function isPermanent(
  error: unknown,
  spentMs: number,
  { deadlineMs, signal }: IdempotentCreateOptions,
): boolean {
  if (signal?.aborted || error instanceof WaitedTooLong) return true
  if (deadlineMs === undefined) return false
  return spentMs > deadlineMs || !isApiError(error, 'Unavailable', 'TooManyRequests')
}

type KubernetesLogStoreOptions = {
  resources: Resources
  /** Davit's own. */
  namespace: string
  clock: Clock
  random: Random
  /** For feeds; absent where the log is not followed. */
  watching?: InformerDependencies
}

const KINDS = {
  events: { kind: deliverySegmentKind.kind, type: deliverySegments },
  outcomes: { kind: outcomeSegmentKind.kind, type: outcomeSegments },
} as const

export class KubernetesLogStore implements LogStore {
  readonly #options: KubernetesLogStoreOptions
  readonly #names: Record<Sequence, SegmentNamer>

  constructor(options: KubernetesLogStoreOptions) {
    this.#options = options
    const namer = (sequence: Sequence) =>
      new SegmentNamer({ ...options, first: async () => await this.#firstName(sequence) })
    this.#names = { events: namer('events'), outcomes: namer('outcomes') }
  }

  async append(sequence: Sequence, segment: NewSegment, rules: AppendRules = {}): Promise<StoredSegment> {
    const { resources, namespace, clock, random } = this.#options
    const { kind, type } = KINDS[sequence]
    const labels = { [NO_BACKUP_LABEL]: 'true', ...(segment.hasClaims ? { [CLAIMS_LABEL]: 'true' } : {}) }
    const make = async (): Promise<RawObject> => ({
      apiVersion: API_VERSION,
      kind,
      metadata: { name: await this.#names[sequence].next(), namespace, labels },
      spec: segment.specOf(),
    })
    return await createIdempotently(resources, type, make, { clock, random, ...rules })
  }

  /** @throws Error if the log cannot be followed here */
  feed<T>(sequence: Sequence, { pageSize, decode, handler, ...feed }: Feed<T>): Watch {
    const { namespace, watching } = this.#options
    if (!watching) throw new Error('this process does not follow the delivery log')
    const names = this.#names[sequence]
    return new Informer<T>(
      {
        ...feed,
        type: KINDS[sequence].type,
        query: { namespace, limit: pageSize },
        streaming: true,
        handler: handler ?? { applied: () => undefined },
        decode: (raw, bytes) => {
          names.observe(raw.metadata.name)
          return decode(raw, bytes)
        },
      },
      watching,
    )
  }

  async page(sequence: Sequence, { limit, claimsOnly }: PageQuery, from?: string): Promise<SegmentPage> {
    const { resources, namespace } = this.#options
    const selector = claimsOnly ? { labelSelector: `${CLAIMS_LABEL}=true` } : {}
    const page = await resources.list(KINDS[sequence].type, { namespace, limit, ...selector }, from)
    const { items: segments, resourceVersion, continue: next } = page
    return { segments, version: Number(resourceVersion), ...(next === undefined ? {} : { next }) }
  }

  async read(sequence: Sequence, name: string): Promise<StoredSegment | undefined> {
    const { resources, namespace } = this.#options
    return await findObject(resources, KINDS[sequence].type, { namespace, name })
  }

  async remove(sequence: Sequence, name: string): Promise<void> {
    const { resources, namespace } = this.#options
    try {
      await resources.delete(KINDS[sequence].type, { namespace, name })
    } catch (error) {
      if (!isApiError(error, 'NotFound')) throw error
    }
  }

  async #firstName(sequence: Sequence): Promise<string | undefined> {
    return (await this.page(sequence, { limit: 1 })).segments[0]?.metadata.name
  }
}
