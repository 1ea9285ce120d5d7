/** What every receiver of deliveries does: it reads a request within a bound, verifies it, and tells repeated deliveries. */
import type { IncomingMessage } from 'node:http'
import { LRUCache } from 'lru-cache'
import { Webhook } from 'standardwebhooks'

/** A delivery has at most 256 KiB of data. */
export const MAX_BODY_BYTES = 1024 * 1024
/** So many ids are remembered. */
const REMEMBERED_IDS = 10_000

/** @returns undefined if it is too large */
export async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** @returns why no secret fits; undefined if one does */
export function signatureProblem(
  secrets: readonly string[],
  headers: IncomingMessage['headers'],
  body: Buffer,
): string | undefined {
  let problem = 'there is no signing secret'
  for (const secret of secrets) {
    try {
      new Webhook(secret).verify(body, headers as Record<string, string>)
      return undefined
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error)
    }
  }
  return problem
}

/** How often each delivery has come, the latest ones. */
export class AttemptCounts {
  readonly #counts = new LRUCache<string, number>({ max: REMEMBERED_IDS })

  /** @returns the number of times, this one included */
  count(key: string): number {
    const count = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, count)
    return count
  }
}
