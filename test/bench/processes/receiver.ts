/**
 * The receiver of the bench's deliveries: a lean server that stamps each receipt. Paths decide the answer:
 * /ok... 200 at once, /slow... 200 a second before the deadline, /fail... 500, /hang... none.
 */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readStamp } from '../loads/event.ts'
import { microseconds } from '../measure/instant.ts'
import { type Quantiles, quantilesOf, Samples } from '../measure/samples.ts'
import { serveCalls } from './remote-calls.ts'

/** Of one path since its load began. Latencies in milliseconds, times in microseconds of `instant.ts`. */
export type Received = {
  requests: number
  /** Different events; each counts when it came first. */
  events: number
  latency: Quantiles
  firstAt: number
  lastAt: number
  /** One for each started ten seconds since the first receipt. */
  timeline: { events: number; p50: number; p99: number }[]
}

export type ReceiverCalls = {
  listen: (argument: null) => Promise<number>
  /** Starts again: only events of this run count. */
  begin: (run: number) => void
  /** Different events received so far, on all paths. */
  count: (argument: null) => number
  collect: (path: string) => Received
  /** When each event was received first, by its number. @param path or the beginning of those of one publisher */
  receipts: (path: string) => ReadonlyMap<number, number>
}

const BUCKET_US = 10_000_000

class Ledger {
  readonly seen = new Set<number>()
  readonly receivedAt = new Samples()
  readonly latency = new Samples()
  requests = 0
}

let current = -1
let ledgers = new Map<string, Ledger>()
let events = 0

const server = createServer((request, response) => {
  let head = ''
  request.setEncoding('latin1')
  request.on('data', (chunk: string) => {
    if (head.length < 1024) head += chunk
  })
  request.on('end', () => {
    receive(request.url ?? '', head)
    answer(request.url ?? '', response)
  })
})

function receive(path: string, head: string): void {
  const now = microseconds()
  const stamp = readStamp(head)
  if (stamp?.run !== current) return
  const ledger = ledgerOf(path)
  ledger.requests += 1
  if (ledger.seen.has(stamp.n)) return
  ledger.seen.add(stamp.n)
  ledger.receivedAt.add(now)
  ledger.latency.add((now - stamp.at) / 1000)
  events += 1
}

/** An attempt may take 20 seconds. */
const SLOW_MS = 19_000

function answer(path: string, response: ServerResponse): void {
  if (path.startsWith('/hang')) return
  if (path.startsWith('/slow')) {
    setTimeout(() => response.writeHead(200, { 'content-length': 0 }).end(), SLOW_MS)
    return
  }
  response.writeHead(path.startsWith('/fail') ? 500 : 200, { 'content-length': 0 }).end()
}

function ledgerOf(path: string): Ledger {
  const held = ledgers.get(path)
  if (held) return held
  const ledger = new Ledger()
  ledgers.set(path, ledger)
  return ledger
}

function ledgersOf(beginning: string): Ledger[] {
  return [...ledgers].filter(([path]) => path.startsWith(beginning)).map(([, ledger]) => ledger)
}

function receipts(path: string): ReadonlyMap<number, number> {
  return new Map(
    ledgersOf(path).flatMap(({ seen, receivedAt }) => {
      const times = receivedAt.values()
      return [...seen].map((n, index) => [n, times[index] ?? 0] as const)
    }),
  )
}

/** @param path or the beginning of several */
function collect(path: string): Received {
  const matching = ledgersOf(path)
  const receivedAt = joined(matching.map((ledger) => ledger.receivedAt.values()))
  const latency = joined(matching.map((ledger) => ledger.latency.values()))
  return {
    requests: matching.reduce((sum, ledger) => sum + ledger.requests, 0),
    events: latency.length,
    latency: quantilesOf(latency),
    firstAt: receivedAt.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    lastAt: receivedAt.reduce((a, b) => Math.max(a, b), 0),
    timeline: timelineOf(receivedAt, latency),
  }
}

function timelineOf(receivedAt: Float64Array, latency: Float64Array): Received['timeline'] {
  const start = receivedAt.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  const buckets: Samples[] = []
  receivedAt.forEach((at, index) => {
    const bucket = Math.floor((at - start) / BUCKET_US)
    while (buckets.length <= bucket) buckets.push(new Samples())
    buckets[bucket]?.add(latency[index] ?? 0)
  })
  return buckets.map((bucket) => {
    const { count, p50, p99 } = quantilesOf(bucket.values())
    return { events: count, p50, p99 }
  })
}

function joined(parts: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

serveCalls({
  listen: async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  },
  begin: (run: number) => {
    current = run
    ledgers = new Map()
    events = 0
  },
  count: () => events,
  collect,
  receipts,
} satisfies ReceiverCalls)
