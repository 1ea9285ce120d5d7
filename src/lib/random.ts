import { randomBytes } from 'node:crypto'
import type { Random } from './ports-clock.ts'

/** The machine's chance: `bytes` is cryptographic, `fraction` (for jitter) is not. */
export function createRandom(): Random {
  return {
    fraction: () => Math.random(),
    bytes: (count) => randomBytes(count),
  }
}
