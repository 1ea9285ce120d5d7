import type { Clock } from './ports-clock.ts'

/** A moment by both clocks: the monotonic one of a machine that slept may stand still, and the other one may be set. */
export type DualTimestamp = { monotonic: number; wall: number }

export function dualTimestamp(clock: Clock): DualTimestamp {
  return { monotonic: clock.monotonic(), wall: clock.now() }
}

/** Milliseconds since then, by the clock that tells more. */
export function elapsedSince(clock: Clock, { monotonic, wall }: DualTimestamp): number {
  return Math.max(clock.monotonic() - monotonic, clock.now() - wall)
}
