/** Reads pages of one long log, one after the other. */
import { readFile } from 'node:fs/promises'
import { bodyOf, HttpClient } from '../loads/http-client.ts'
import { type Quantiles, quantilesOf, Samples } from '../measure/samples.ts'
import { serveCalls } from './remote-calls.ts'

/** Milliseconds of each page. `different`: ids that came once. */
export type Walked = { lines: number; different: number; latency: Quantiles }

export type HttpPagesCalls = {
  connect: (to: { baseUrl: string; path: string; keyFile: string }) => Promise<void>
  /** From the newest to the oldest. */
  walk: (limit: number) => Promise<Walked>
  /** The same page again and again: the newest, or the one behind half of the log where `middle` is asked for. */
  pages: (of: { query: string; middle?: boolean; count: number }) => Promise<Quantiles>
}

type Page = { deliveries: { deliveryId: string }[]; cursor: string | null }

let client: HttpClient | undefined
let log = { path: '', key: '' }
let middle = ''

async function page(query: string): Promise<Page> {
  const answer = await client?.send({ method: 'GET', path: `${log.path}?${query}`, key: log.key })
  if (!answer) throw new Error('there is no connection')
  return bodyOf(answer, 200) as Page
}

serveCalls({
  async connect({ baseUrl, path, keyFile }) {
    client = new HttpClient(baseUrl, 1)
    log = { path, key: await readFile(keyFile, 'utf8') }
  },
  async walk(limit) {
    const samples = new Samples()
    const ids = new Set<string>()
    const cursors: string[] = []
    let lines = 0
    let cursor: string | null = ''
    while (cursor !== null) {
      const started = performance.now()
      const { deliveries, cursor: next } = await page(
        `limit=${limit}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
      )
      samples.add(performance.now() - started)
      lines += deliveries.length
      for (const { deliveryId } of deliveries) ids.add(deliveryId)
      cursor = next
      if (next !== null) cursors.push(next)
    }
    middle = cursors[cursors.length >> 1] ?? ''
    return { lines, different: ids.size, latency: quantilesOf(samples.values()) }
  },
  async pages({ query, middle: fromMiddle, count }) {
    const samples = new Samples()
    const from = fromMiddle ? `&cursor=${encodeURIComponent(middle)}` : ''
    while (samples.size < count) {
      const started = performance.now()
      const { deliveries } = await page(query + from)
      samples.add(performance.now() - started)
      if (deliveries.length === 0) throw new Error(`the page ${query} has nothing on it`)
    }
    return quantilesOf(samples.values())
  },
} satisfies HttpPagesCalls)
