/** Formats the results of the section on the REST server. */
import { mebibytes, milliseconds, range } from './figures.ts'
import { REQUEST_KINDS } from './loads/request-kinds.ts'
import type { ServerResult } from './sections/facade.ts'
import type { KindLatencies } from './sections/facade-kinds.ts'
import type { PageKind, ServerLog } from './sections/facade-log.ts'
import type { ServerMemory } from './sections/facade-memory.ts'
import type { ServerSaturation } from './sections/facade-saturation.ts'
import { type Row, renderTable } from './table.ts'

export function renderServer({ saturation, manyClients, kinds, memory, log }: ServerResult): string[] {
  return [
    saturationTable(saturation, manyClients),
    kindsTable(kinds),
    memoryTable(memory),
    logTable(log),
    footprintTable(log),
  ]
}

const PROCESSES = ['facade', 'clients', 'controller', 'apiServer', 'etcd', 'receiver', 'publisher']

function saturationTable(
  { Objects, Segments }: ServerResult['saturation'],
  many: ServerResult['manyClients'],
): string {
  const row = (name: string, of: (one: ServerSaturation) => string, wanted = ''): Row => [
    name,
    of(Objects),
    of(Segments),
    wanted,
  ]
  return renderTable('Published by REST, at saturation (median, and the range of the rounds)', [
    ['', 'Objects', 'Segments', 'wanted'],
    row('deliveries/s', (one) => range(one.perSecond, 0), 'Segments 2,300, better 3,074'),
    row('without HTTP/s', (one) => range(one.direct, 0)),
    row('of that without HTTP', (one) => range(one.ofDirect, 2), '0.9 / 0.6'),
    row('without HTTP, a facade follows/s', (one) => one.followed.toFixed(0)),
    row('API writes per delivery', (one) => range(one.writesPerDelivery, 2)),
    row('the same without HTTP', (one) => range(one.directWrites, 2)),
    ...PROCESSES.map((name) => row(`CPU ms per event, ${name}`, (one) => range(one.cpu[name], 2))),
    ...PROCESSES.slice(2).map((name) =>
      row(`the same without HTTP, ${name}`, (one) => range(one.directCpu[name], 2)),
    ),
    row('answered after ms, p50', (one) => one.answered.p50.toFixed(1)),
    row('answered after ms, p99', (one) => one.answered.p99.toFixed(1)),
    row('facade MiB', (one) => range(one.facadeMiB, 0)),
    [
      '200 clients, 100 endpoints, deliveries/s',
      many.Objects.toFixed(0),
      many.Segments.toFixed(0),
      'as with one',
    ],
  ])
}

function kindsTable(of: KindLatencies): string {
  const cpu = Object.entries(of.cpuPerSecond).map(([name, ms]) => `${name} ${ms.toFixed(0)}`)
  const title =
    `Answers of the facade (ms) while ${of.perSecond} events/s are published by REST, half of saturation, ` +
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
    `The facade over ${requests} requests of ${clients} clients, ${perSecond.toFixed(0)}/s: 65 % event types, 5 % each one ` +
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
  return renderTable('The facade with that log', [
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
