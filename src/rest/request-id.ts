import { encodeBytes } from '../domain/base32.ts'
import type { Random } from '../ports/clock.ts'

const CHARACTERS = 20
const ENTROPY_BYTES = 13

/** Names one request in its answer and in the log. Always ours: what a client sends could be anything. */
export function requestId(random: Pick<Random, 'bytes'>): string {
  return `req_${encodeBytes(random.bytes(ENTROPY_BYTES), CHARACTERS)}`
}
