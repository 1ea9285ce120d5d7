/**
 * Creates an object exactly once, although an answer may be lost: the name tells a repeat from a stranger. Names tell readers what came
 * last, so one that could not be written for long is not there under that name, and gets another.
 */
import type { ResourceType } from '../../apis/meta.ts'
import {
  ApiError,
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { pollUntil, sleep } from '../../lib/sleep.ts'

export type IdempotentCreateOptions = {
  clock: Clock
  random: Random
  /** Tries again only what may pass, for so long. Absent: tries again whatever it is, until `signal` aborts. */
  deadlineMs?: number
  /** Once it is false nothing is begun to be written any more. Absent: it may be at any time. */
  mayBegin?: () => boolean
  /** While it is false nothing is tried, and nothing counts as a failure; then at once. Absent: always. */
  mayTry?: () => boolean
  signal?: AbortSignal
}

/** Who reads the log goes back by more. */
const NAME_HOLDS_MS = 20_000
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 5_000

/**
 * @param make an object under a name that nobody else uses, and that is newer than all there are
 * @throws ApiError with a deadline, what will not pass by itself at once, and the rest after it
 */
export async function createIdempotently(
  resources: ResourceReader & ResourceWriter,
  type: ResourceType,
  make: () => Promise<RawObject>,
  options: IdempotentCreateOptions,
): Promise<RawObject> {
  const { clock, random, mayTry, signal } = options
  const started = clock.monotonic()
  let longest = FIRST_PAUSE_MS
  const draft = new Draft(make, options)
  for (;;) {
    if (mayTry) await pollUntil(clock, mayTry, signal)
    try {
      return await draft.write(resources, type)
    } catch (error) {
      const asked = isApiError(error) ? (error.retryAfterMs ?? 0) : 0
      const ms = Math.max(asked, longest * (0.5 + random.fraction() / 2))
      if (isOver(error, clock.monotonic() - started + ms, options)) throw error
      await sleep(clock, ms, signal)
      longest = Math.min(LONGEST_PAUSE_MS, longest * 2)
    }
  }
}

/** Under one name for as long as that is new. */
class Draft {
  readonly #make: () => Promise<RawObject>
  readonly #clock: Clock
  readonly #mayBegin: () => boolean
  #object: RawObject | undefined
  #namedAt = 0

  constructor(make: () => Promise<RawObject>, { clock, mayBegin = () => true }: IdempotentCreateOptions) {
    this.#make = make
    this.#clock = clock
    this.#mayBegin = mayBegin
  }

  async write(resources: ResourceReader & ResourceWriter, type: ResourceType): Promise<RawObject> {
    const now = this.#clock.monotonic()
    if (this.#object && now - this.#namedAt > NAME_HOLDS_MS) {
      const written = await findObject(resources, type, this.#object.metadata)
      if (written) return written
      this.#object = undefined
    }
    if (!this.#object) {
      this.#object = await this.#make()
      this.#namedAt = now
    }
    if (!this.#mayBegin()) throw new WaitedTooLong()
    return await createOrRead(resources, type, this.#object)
  }
}

/** Nothing was written by the try that says so; of one before it that may not be known. */
class WaitedTooLong extends ApiError {
  constructor() {
    super(
      'Unavailable',
      'it has waited for longer than what was looked up before it holds, and is not written',
    )
  }
}

/** A repeat finds what it wrote before. */
async function createOrRead(
  resources: ResourceReader & ResourceWriter,
  type: ResourceType,
  object: RawObject,
): Promise<RawObject> {
  try {
    return await resources.create(type, object, { answer: 'metadata' })
  } catch (error) {
    if (isApiError(error, 'AlreadyExists')) return await resources.get(type, object.metadata)
    throw error
  }
}

function isOver(error: unknown, spentMs: number, { deadlineMs, signal }: IdempotentCreateOptions): boolean {
  if (signal?.aborted || error instanceof WaitedTooLong) return true
  if (deadlineMs === undefined) return false
  return spentMs > deadlineMs || !isApiError(error, 'Unavailable', 'TooManyRequests')
}
