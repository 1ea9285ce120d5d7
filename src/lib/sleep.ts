import type { Clock } from './ports-clock.ts'

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
