import type { Clock, Random } from './clock.ts'

/** The longest that a timer can be set to; beyond it Node fires after 1 ms. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** Waits `ms` milliseconds, or until `signal` aborts: then it resolves at once, and the caller looks at the signal. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      stop()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const stop = clock.after(Math.min(Math.max(0, ms), MAX_TIMER_MS), end)
    signal?.addEventListener('abort', end, { once: true })
  })
}

const LOOK_MS = 20

/** Looks until it is so, or `signal` aborts: then it resolves as well, and the caller looks at the signal. */
export async function pollUntil(clock: Clock, isSo: () => boolean, signal?: AbortSignal): Promise<void> {
  while (!isSo() && !signal?.aborted) await sleep(clock, LOOK_MS, signal)
}

/** Lets everything else that is ready have its turn: between batches of work that would hold the event loop. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** What `work` gives, or the signal's reason as soon as it aborts, for work that others wait for as well. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const leave = () => reject(signal.reason)
  if (signal.aborted) leave()
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

export type BackoffLimits = { firstMs: number; longestMs: number }

/**
 * The wait after the `failures`-th failure in a row (1 is the first): doubles up to the longest, and is spread
 * over the upper half of that, so that many who failed together do not come back together.
 */
export function backoffMs(failures: number, limits: BackoffLimits, random: Random): number {
  const doublings = Math.min(Math.max(0, failures - 1), 40)
  const wait = Math.min(limits.longestMs, limits.firstMs * 2 ** doublings)
  return wait * (0.5 + random.fraction() / 2)
}
