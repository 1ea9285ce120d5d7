/** A process with a long log in the delivery index, so that its memory is that of the log alone. Needs `--expose-gc`. */

import { messageId } from '../../../src/apis/ids.ts'
import { DeliveryLines } from '../../../src/server/delivery-index/line-updates.ts'
import { type LogQuery, logPage } from '../../../src/server/delivery-index/queries.ts'
import { type LongLog, longLog, nameOf, uidOf } from '../loads/long-log.ts'
import { type Quantiles, quantilesOf, Samples } from '../measure/samples.ts'
import { serveCalls } from './remote-calls.ts'

export type Filled = {
  seconds: number
  /** The most that a segment with its outcomes took of the processor, in milliseconds. */
  longestMs: number
  /** Memory over that of the process without a log: heap, what lies outside of it, and all that is resident. */
  heapBytes: number
  outsideBytes: number
  residentBytes: number
}

/** `exhausted` there are none of but one, the oldest: all lines are looked at. */
export type PageKind = 'newest' | 'middle' | 'oldest' | 'failed' | 'exhausted'

export type LogIndexCalls = {
  fill: (log: LongLog) => Promise<Filled>
  /** Milliseconds of pages of one kind. */
  pages: (of: { kind: PageKind; count: number }) => Promise<Quantiles>
}

const PAGE = 50
const CAPACITY = 2_000_000

let held: { lines: DeliveryLines; log: LongLog } | undefined

serveCalls({
  fill: async (log: LongLog) => {
    const before = memory()
    const lines = new DeliveryLines(CAPACITY, () => undefined)
    const started = performance.now()
    let longestMs = 0
    let since = cpuMs()
    for (const _ of longLog(log, lines)) {
      const now = cpuMs()
      longestMs = Math.max(longestMs, now - since)
      since = now
    }
    const seconds = (performance.now() - started) / 1000
    if (lines.size !== log.lines) throw new Error(`${lines.size} lines of ${log.lines}`)
    held = { lines, log }
    const after = memory()
    return {
      seconds,
      longestMs,
      heapBytes: after.heapUsed - before.heapUsed,
      outsideBytes: after.external - before.external,
      residentBytes: after.rss - before.rss,
    }
  },
  pages: async ({ kind, count }: { kind: PageKind; count: number }) => {
    if (!held) throw new Error('there is no log')
    const { lines, log } = held
    const endpoint = { namespace: 'org-0', name: 'endpoint-0', uid: uidOf(0) }
    const samples = new Samples()
    for (let page = 0; page < count; page += 1) {
      const started = performance.now()
      const found = logPage(lines.lines, [endpoint], queryOf(kind, log, page))
      samples.add(performance.now() - started)
      if (found.deliveries.length === 0) throw new Error(`a page (${kind}) has nothing on it`)
    }
    return quantilesOf(samples.values())
  },
} satisfies LogIndexCalls)

function queryOf(kind: PageKind, { lines }: LongLog, page: number): LogQuery {
  const query = { limit: PAGE }
  if (kind === 'middle') return { ...query, after: messageId(nameOf((lines >> 1) + page)) }
  if (kind === 'oldest') return { ...query, after: messageId(nameOf(lines >> 4)) }
  if (kind === 'failed') return { ...query, status: 'retrying' }
  if (kind === 'exhausted') return { ...query, status: 'exhausted' }
  return query
}

/** Of this thread. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

function memory() {
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage()
}
