/** Creates an object exactly once, although an answer may be lost: the name tells a repeat from a stranger. */
import type { ResourceType } from '../../api/meta.ts'
import type { Clock, Random } from '../../ports/clock.ts'
import {
  isApiError,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
} from '../../ports/kubernetes.ts'
import { pause, until } from '../../runtime/pause.ts'

export type WriteOnceOptions = {
  clock: Clock
  random: Random
  /** Tries again only what may pass, for so long. Absent: tries again whatever it is, until `signal` aborts. */
  deadlineMs?: number
  /** While it is false nothing is tried, and nothing counts as a failure; then at once. Absent: always. */
  mayTry?: () => boolean
  signal?: AbortSignal
}

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 5_000

/**
 * @param object must have a name that nobody else uses
 * @throws ApiError with a deadline, what will not pass by itself at once, and the rest after it
 */
export async function writeOnce(
  resources: ResourceReader & ResourceWriter,
  type: ResourceType,
  object: RawObject,
  options: WriteOnceOptions,
): Promise<RawObject> {
  const { clock, random, mayTry, signal } = options
  const started = clock.monotonic()
  let longest = FIRST_PAUSE_MS
  for (;;) {
    if (mayTry) await until(clock, mayTry, signal)
    try {
      return await createOrRead(resources, type, object)
    } catch (error) {
      const asked = isApiError(error) ? (error.retryAfterMs ?? 0) : 0
      const ms = Math.max(asked, longest * (0.5 + random.fraction() / 2))
      if (isOver(error, clock.monotonic() - started + ms, options)) throw error
      await pause(clock, ms, signal)
      longest = Math.min(LONGEST_PAUSE_MS, longest * 2)
    }
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

function isOver(error: unknown, spentMs: number, { deadlineMs, signal }: WriteOnceOptions): boolean {
  if (signal?.aborted) return true
  if (deadlineMs === undefined) return false
  return spentMs > deadlineMs || !isApiError(error, 'Unavailable', 'TooManyRequests')
}
