/** Time as an argument: what decides reads `now`, what waits uses `monotonic` and `after`. */
export interface Clock {
  /** Wall time in whole milliseconds since 1970, as stamps have it: for schedules and stamps. */
  now(): number
  /** Milliseconds that never go back or jump: for deadlines, rates and leases. */
  monotonic(): number
  /**
   * Calls `run` once after `ms` (0 to 2^31-1, the caller clamps) and returns the call that stops it.
   * Must not keep the process alive by itself.
   */
  after(ms: number, run: () => void): () => void
}

/** Chance as an argument. */
export interface Random {
  /** Uniform in [0, 1). */
  fraction(): number
  /** Bytes fit for keys. */
  bytes(count: number): Uint8Array
}
