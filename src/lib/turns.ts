/** Turns at something that takes only so many calls a second, and that several flows share. */
export interface RateLimiter {
  /**
   * Waits for a turn of `flow`.
   * @throws TurnsFullError if too many wait; the reason of `signal` if it aborts before the turn has come
   */
  acquire(flow: string, options?: AcquireOptions): Promise<void>
  /** What the turns are for has said that there were too many. */
  slowDown(): void
}

export type AcquireOptions = {
  signal?: AbortSignal
  /** It had a turn that came to nothing, so it goes before those of its flow that had none. */
  isRetry?: boolean
}

/** So many wait for a turn that one more would only wait in vain. */
export class RateLimiterFullError extends Error {
  override readonly name = 'TurnsFullError'

  constructor() {
    super('too many calls wait for their turn')
  }
}
