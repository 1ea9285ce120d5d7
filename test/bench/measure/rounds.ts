/** Rounds of turns that are compared: each begins with another turn, and together they end in time. */

export type RoundsPlan = {
  rounds: number
  /** For everything, from the start of the section. */
  limitSeconds: number
}

/** In seconds, from any moment on. */
export type Stopwatch = () => number

/** From now on. */
export function startStopwatch(): Stopwatch {
  const started = performance.now()
  return () => (performance.now() - started) / 1000
}

/**
 * Runs as many rounds as wanted, and at least one. Leaves out the rest if another round that takes as long as the longest one would
 * exceed the limit.
 * @returns how many rounds it ran
 */
export async function runRounds(
  { rounds, limitSeconds }: RoundsPlan,
  elapsed: Stopwatch,
  runRound: (round: number) => Promise<void>,
): Promise<number> {
  let longest = 0
  for (let round = 0; round < rounds; round += 1) {
    const start = elapsed()
    if (round > 0 && start + longest > limitSeconds) return round
    await runRound(round)
    longest = Math.max(longest, elapsed() - start)
  }
  return rounds
}

/** In the order of this round: another one begins in each. */
export function rotated<T>(turns: readonly T[], round: number): T[] {
  const first = round % Math.max(1, turns.length)
  return [...turns.slice(first), ...turns.slice(0, first)]
}
