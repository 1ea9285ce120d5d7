/** The memory of a long log in the REST server, and the time of a page. */
import { fileURLToPath } from 'node:url'
import type { LongLog } from '../loads/long-log.ts'
import type { Quantiles } from '../measure/samples.ts'
import type { Filled, LogIndexCalls, PageKind } from '../processes/log-index.ts'
import { spawnProcess } from '../processes/remote-calls.ts'
import { report } from '../progress.ts'

export type LogPages = {
  log: LongLog
  filled: Filled
  bytesEach: number
  /** Milliseconds. */
  pages: Partial<Record<PageKind, Quantiles>>
}

const PROCESS = fileURLToPath(new URL('../processes/log-index.ts', import.meta.url))
const PAGES = 2000
/** Those for which a long log is looked through. */
const SLOW_PAGES = 50

/** @param lines of the whole log: of one endpoint, of many, and of many with a segment for each few deliveries */
export async function measureLogPages(lines: number): Promise<LogPages[]> {
  const results: LogPages[] = []
  for (const log of [
    { lines, endpoints: 1, perSegment: 100 },
    { lines, endpoints: 1000, perSegment: 100 },
    { lines, endpoints: 1000, perSegment: 8 },
  ]) {
    results.push(await measureOne(log))
  }
  return results
}

async function measureOne(log: LongLog): Promise<LogPages> {
  const remote = spawnProcess<LogIndexCalls>(PROCESS, { execArgv: ['--expose-gc'] })
  try {
    const filled = await remote.call('fill', log)
    const bytesEach = (filled.heapBytes + filled.outsideBytes) / log.lines
    const pages: LogPages['pages'] = {}
    for (const kind of ['newest', 'middle', 'oldest'] as const)
      pages[kind] = await remote.call('pages', { kind, count: PAGES })
    for (const kind of ['failed', 'exhausted'] as const)
      pages[kind] = await remote.call('pages', { kind, count: SLOW_PAGES })
    report(`${log.lines} lines of ${log.endpoints} endpoints: ${bytesEach.toFixed(0)} bytes each`)
    return { log, filled, bytesEach, pages }
  } finally {
    await remote.stop()
  }
}
