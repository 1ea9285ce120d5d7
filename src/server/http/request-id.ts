import type { Random } from '../../lib/ports-clock.ts'
import { encodeBase32 } from '../../lib/text.ts'

const CHARACTERS = 20
const ENTROPY_BYTES = 13
/** Drawn together: one at a time costs as much as all the rest of naming a request. */
const BATCH = 256

/** Names requests, in their answers and in the log. Always our own: what a client sends could be anything. */
export function createRequestIds(random: Pick<Random, 'bytes'>): () => string {
  let drawn = new Uint8Array()
  let used = 0
  return () => {
    if (used === drawn.length) {
      drawn = Uint8Array.from(random.bytes(ENTROPY_BYTES * BATCH))
      used = 0
    }
    const entropy = drawn.subarray(used, used + ENTROPY_BYTES)
    used += ENTROPY_BYTES
    return `req_${encodeBase32(entropy, CHARACTERS)}`
  }
}
