/** Formats the results of the section on the REST server. */
import { mebibytes, milliseconds, range } from './figures.ts'
import { REQUEST_KINDS } from './loads/request-kinds.ts'
import type { ServerResult } from './sections/rest.ts'
import type { KindLatencies } from './sections/rest-kinds.ts'
import type { PageKind, ServerLog } from './sections/rest-log.ts'
import type { ServerMemory } from './sections/rest-memory.ts'
import type { ServerSaturation } from './sections/rest-saturation.ts'
import { renderTable } from './table.ts'

export function renderServer({ saturation, manyClients, kinds, memory, log }: ServerResult): string[] {
  return [
    saturationTable(saturation, manyClients),
    kindsTable(kinds),
    memoryTable(memory),
    logTable(log),
    footprintTable(log),
  ]
}

const PROCESSES = ['restServer', 'clients', 'controller', 'apiServer', 'etcd', 'receiver', 'publisher']

function saturationTable(of: ServerSaturation, manyClients: number): string {
  return renderTable('Published by REST, at saturation (median, and the range of the rounds)', [
    ['', 'measured', 'wanted'],
    ['deliveries/s', range(of.perSecond, 0), '2,300, better 3,074'],
    ['without HTTP/s', range(of.direct, 0)],
    ['of that without HTTP', range(of.ofDirect, 2), '0.6'],
    ['without HTTP, a REST server follows/s', of.followed.toFixed(0)],
    ['API writes per delivery', range(of.writesPerDelivery, 2)],
    ['the same without HTTP', range(of.directWrites, 2)],
    ...PROCESSES.map((name) => [`CPU ms per event, ${name}`, range(of.cpu[name], 2)]),
    ...PROCESSES.slice(2).map((name) => [`the same without HTTP, ${name}`, range(of.directCpu[name], 2)]),
    ['answered after ms, p50', of.answered.p50.toFixed(1)],
    ['answered after ms, p99', of.answered.p99.toFixed(1)],
    ['REST server MiB', range(of.restServerMiB, 0)],
    ['200 clients, 100 endpoints, deliveries/s', manyClients.toFixed(0), 'as with one'],
  ])
}

function kindsTable(of: KindLatencies): string {
  const cpu = Object.entries(of.cpuPerSecond).map(([name, ms]) => `${name} ${ms.toFixed(0)}`)
  const title =
    `Answers of the REST server (ms) while ${of.perSecond} events/s are published by REST, half of saturation, ` +
    `and ${of.eachPerSecond}/s of each kind are asked for; CPU ms a second: ${cpu.join(', ')}`
  return renderTable(title, [
    ['', 'p50', 'p90', 'p99', 'max', 'requests', 'failed'],
    ['publish', ...milliseconds(of.published), String(of.published.count), '0'],
    ...REQUEST_KINDS.map((kind) => {
      const { latency, failed } = of.kinds[kind]
      return [kind, ...milliseconds(latency), String(latency.count), String(failed)]
    }),
    ['due to received', ...milliseconds(of.receipt), String(of.receipt.count)],
  ])
}

function memoryTable({ requests, clients, perSecond, samples }: ServerMemory): string {
  const title =
    `The REST server over ${requests} requests of ${clients} clients, ${perSecond.toFixed(0)}/s: 65 % event types, 5 % each one ` +
    'endpoint, endpoints, deliveries, published events, and refusals with 401, 404 and 422'
  return renderTable(title, [
    ['requests', 'resident MiB', 'in use MiB', 'lines of the log', 'index MiB'],
    ...samples.map((one) => [
      String(one.requests),
      mebibytes(one.resident),
      mebibytes(one.inUse),
      String(one.lines),
      mebibytes(one.index),
    ]),
  ])
}

function logTable({ lines, walk, pages }: ServerLog): string {
  const kinds = Object.keys(pages) as PageKind[]
  return renderTable(`Pages of a log of ${lines} deliveries of one endpoint, by REST (ms)`, [
    ['', 'p50', 'p90', 'p99', 'max', 'pages'],
    ['200, newest to oldest', ...milliseconds(walk.latency), String(walk.latency.count)],
    ...kinds.map((kind) => [`50, ${kind}`, ...milliseconds(pages[kind]), String(pages[kind].count)]),
  ])
}

function footprintTable(log: ServerLog): string {
  return renderTable('The REST server with that log', [
    ['', 'ready after s', 'resident MiB', 'in use MiB', 'index MiB', 'bytes in use, each'],
    ...(['without', 'with'] as const).map((which) => [
      which,
      log[which].readySeconds.toFixed(1),
      mebibytes(log[which].resident),
      mebibytes(log[which].inUse),
      mebibytes(log[which].index),
      which === 'with' ? log.bytesEach.toFixed(0) : '',
    ]),
  ])
}
