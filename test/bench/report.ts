/** Formats the results: one table for each section, each value next to its target. */
import { milliseconds, range } from './figures.ts'
import { type Rounds, ratioOf, spreadIn } from './measure/in-turn.ts'
import type { Quantiles } from './measure/samples.ts'
import { renderCredentials } from './report-credentials.ts'
import { renderFailures, renderObjects } from './report-objects.ts'
import { renderServer } from './report-rest.ts'
import { restLoadTables } from './report-rest-load.ts'
import type { RestPublishing, RestReplicas, RestTls } from './rest-load-results.ts'
import type { Burst } from './sections/burst.ts'
import type { CredentialsLoad } from './sections/credentials.ts'
import type { EngineResult } from './sections/engine.ts'
import type { FailuresUnderLoad } from './sections/failures.ts'
import type { Isolation } from './sections/isolation.ts'
import type { LogPages } from './sections/log-pages.ts'
import { MEMORY_LIMIT, type Memory } from './sections/memory.ts'
import type { SteadyObjects } from './sections/objects.ts'
import type { Pending } from './sections/pending.ts'
import { type ReplicasLoad, wordsOfRate } from './sections/replicas.ts'
import type { ServerResult } from './sections/rest.ts'
import type { Saturation } from './sections/saturation.ts'
import type { Soak } from './sections/soak.ts'
import type { Plan } from './settings.ts'
import { renderTable } from './table.ts'

export type BenchResult = {
  name: string
  measuredAt: string
  commit: string
  /** Machine and settings, in words. */
  about: Record<string, string>
  plan: Plan
  engine?: EngineResult
  burst?: Burst
  objects?: SteadyObjects
  failures?: FailuresUnderLoad
  isolation?: Isolation
  memory?: Memory[]
  replicas?: ReplicasLoad[]
  pending?: Pending[]
  log?: LogPages[]
  rest?: ServerResult
  restPublishing?: RestPublishing
  restTls?: RestTls
  restReplicas?: RestReplicas
  credentials?: CredentialsLoad
  soak?: Soak[]
}

export function renderResult(result: BenchResult): string {
  const { engine, burst, objects, failures, isolation, memory, replicas, pending, log } = result
  const { rest, restPublishing, restTls, restReplicas, credentials, soak } = result
  const versions = [restReplicas, restTls, restPublishing, rest, engine].map((section) => section?.versions)
  const parts = [
    Object.entries({ ...result.about, ...Object.assign({}, ...versions) } as Record<string, string>)
      .map(([name, words]) => `${name}: ${words}`)
      .join('\n'),
  ]
  if (engine?.saturation) parts.push(saturationTable(engine.saturation, engine.manyEndpoints))
  if (engine && engine.latency.length > 0) parts.push(latencyTable(engine))
  if (burst) parts.push(burstTable(burst))
  if (objects) parts.push(renderObjects(objects))
  if (failures) parts.push(renderFailures(failures))
  if (isolation) parts.push(isolationTable(isolation))
  if (memory) parts.push(memoryTable(memory))
  if (replicas) parts.push(replicasTable(replicas))
  if (pending) parts.push(pendingTable(pending))
  if (log) parts.push(logTable(log))
  if (rest) parts.push(...renderServer(rest))
  parts.push(...restLoadTables(result).map(({ title, rows }) => renderTable(title, rows)))
  if (credentials) parts.push(renderCredentials(credentials))
  for (const one of soak ?? []) parts.push(soakTable(one))
  return `\n${parts.join('\n\n')}\n`
}

function saturationTable(of: Saturation, many: EngineResult['manyEndpoints']): string {
  return renderTable('At saturation (median, and the range of the rounds)', [
    ['', 'measured', 'wanted'],
    ['deliveries/s', range(of.perSecond, 0), '2,300'],
    ['raw loop/s', range(of.raw, 0)],
    ['of the raw loop', range(of.ofRaw, 2), '0.70, better 0.85'],
    ['API writes per delivery', range(of.writesPerDelivery, 2), '0.3'],
    ...['controller', 'apiServer', 'etcd', 'publisher', 'receiver'].map((name) => [
      `CPU ms per delivery, ${name}`,
      range(of.cpuPerDelivery[name], 2),
      name === 'controller' ? '0.2' : '',
    ]),
    ['the same of the raw loop, API server', range(of.rawCpuPerDelivery.apiServer, 2)],
    ['the same of the raw loop itself', range(of.rawCpuPerDelivery.raw, 2)],
    ...(many === undefined ? [] : [['100 endpoints, deliveries/s', many.toFixed(0), 'as with one']]),
  ])
}

function latencyTable({ latency }: EngineResult): string {
  return renderTable('Event to receipt, open loop (ms)', [
    ['', 'p50', 'p90', 'p99', 'max', 'accepted p99', 'writes each', 'controller CPU ms', 'controller MiB'],
    ...latency.map((one) => [
      `at ${one.perSecond}/s`,
      ...milliseconds(one.receipt),
      one.accepted.p99.toFixed(1),
      one.writesPerDelivery.toFixed(2),
      (one.cpuPerDelivery.controller ?? 0).toFixed(2),
      one.controllerMiB.toFixed(0),
    ]),
    ['wanted at 500/s', '8', '', '30'],
  ])
}

function burstTable(of: Burst): string {
  const title = `${of.events} events that ${of.clients} clients publish by REST as fast as they can`
  return renderTable(`${title} (median, and the range of the rounds)`, [
    ['', 'measured', 'wanted'],
    ['first publish to last receipt in s', range(of.receivedSeconds, 1), '12'],
    ['until all were settled in s', range(of.settledSeconds, 1)],
    ['accepted/s', range(of.acceptedPerSecond, 0)],
    ['answered after ms, p99', range(of.answeredP99, 1)],
    ['API writes per delivery', range(of.writesPerDelivery, 2)],
    ...['restServer', 'clients', 'controller', 'apiServer', 'etcd', 'receiver'].map((name) => [
      `CPU ms per delivery, ${name}`,
      range(of.cpuPerDelivery[name], 2),
    ]),
  ])
}

function isolationTable(isolation: Isolation): string {
  const { without, made, beside, slow, slowMade, large, largeMade, busy } = isolation
  const row = (what: string, name: string, rounds: Rounds) => {
    const ratios = (['p50', 'p99'] as const).map((quantile) => ratioOf({ without, beside: rounds }, quantile))
    const share = `${(100 * (busy[name] ?? 0)).toFixed(0)} %`
    return [what, ...quantileRanges(rounds), ...ratios.map((ratio) => ratio.toFixed(2)), share]
  }
  return renderTable('Receipts of one organization beside another (ms)', [
    ['', 'p50', 'p90', 'p99', 'p50 by that alone', 'p99 by that alone', 'cores busy'],
    row('alone', 'alone', without),
    row('a tenth of the events to an endpoint that hangs', 'beside', beside),
    row('  as many objects made by another process', 'made', made),
    row('64 endpoints that answer after 19 s have every place', 'slow', slow),
    row('  endpoints that answer at once, as many objects made by another process', 'slowMade', slowMade),
    row('25 bodies of 250 KiB a second', 'large', large),
    row('  as many objects as large made by another process', 'largeMade', largeMade),
    ['wanted', '', '', '', '1.10', '1.10', ''],
  ])
}

function memoryTable(memory: readonly Memory[]): string {
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(0)
  return renderTable(`A controller while bodies wait, at most ${mib(MEMORY_LIMIT)} MiB`, [
    [
      'bodies',
      'of all (MiB)',
      'resident at most (MiB)',
      'bytes read for each sent',
      'until all are sent (s)',
    ],
    ...memory.map(({ what, bytes, peak, readPerByte, seconds }) => [
      what,
      mib(bytes),
      mib(peak),
      readPerByte.toFixed(2),
      seconds.toFixed(0),
    ]),
    ['wanted', '', '', '4 of 256 KiB, 16 of 4 KiB', ''],
  ])
}

/** Of the rounds. */
function quantileRanges(rounds: readonly Quantiles[]): string[] {
  return (['p50', 'p90', 'p99'] as const).map((quantile) => range(spreadIn(rounds, quantile), 1))
}

function replicasTable(replicas: readonly ReplicasLoad[]): string {
  return renderTable('Controllers beside each other, CPU of all of them together for each delivery', [
    [
      '',
      'deliveries/s',
      'CPU ms each',
      'by one',
      'with API server and etcd',
      'by one',
      'same work',
      'at same speed',
      'API server ms',
      'writes each',
      'p99 ms',
      'most MiB',
    ],
    ...replicas.map((one) => [
      `${wordsOfRate(one.rate)}, ${one.controllers}`,
      range(one.delivered, 0),
      range(one.cpu, 2),
      range(one.cpuOfOne, 2),
      range(one.cpuOfAll, 2),
      range(one.cpuOfAllOfOne, 2),
      range(one.sameWork, 2),
      one.atSameSpeed ? range(one.atSameSpeed, 2) : '',
      range(one.apiServerCpu, 2),
      range(one.writes, 2),
      range(one.p99, 1),
      range(one.resident, 0),
    ]),
    ['wanted at saturation', '', '', '1.25', '', '1.25'],
  ])
}

function pendingTable(pending: readonly Pending[]): string {
  return renderTable('Deliveries that wait for their next attempt, at the start of the controller', [
    ['', 'ready after s', 'heap MiB', 'resident MiB', 'bytes each'],
    ...pending.map((one) => [
      String(one.deliveries),
      one.readySeconds.toFixed(2),
      (one.heapBytes / 2 ** 20).toFixed(1),
      (one.residentBytes / 2 ** 20).toFixed(0),
      one.deliveries === 0 ? '' : one.bytesEach.toFixed(0),
    ]),
    ['wanted', '6 for 100,000', '', '', '300'],
  ])
}

function logTable(log: readonly LogPages[]): string {
  const p99 = ({ pages }: LogPages, kind: keyof LogPages['pages']) => (pages[kind]?.p99 ?? 0).toFixed(2)
  return renderTable('The log of deliveries in the REST server: memory, and p99 of a page of 50 (ms)', [
    [
      '',
      'MiB',
      'bytes each',
      'read in s',
      'longest step ms',
      'newest',
      'middle',
      'oldest',
      'failed',
      'rarest',
    ],
    ...log.map((one) => [
      `${one.log.lines} of ${one.log.endpoints} endpoints, ${one.log.perSegment} a segment`,
      ((one.bytesEach * one.log.lines) / 2 ** 20).toFixed(0),
      one.bytesEach.toFixed(0),
      one.filled.seconds.toFixed(1),
      one.filled.longestMs.toFixed(1),
      ...(['newest', 'middle', 'oldest', 'failed', 'exhausted'] as const).map((kind) => p99(one, kind)),
    ]),
    ['wanted', '100', '150', '', '50', '1', '1', '1'],
  ])
}

function soakTable(soak: Soak): string {
  const title = `${soak.bytes} bytes, ${soak.perSecond.toFixed(0)}/s, half of ${soak.saturation.toFixed(0)}/s`
  const mib = (bytes = 0) => (bytes / 2 ** 20).toFixed(0)
  return renderTable(title, [
    [
      'minute',
      'events/s',
      'p50 ms',
      'p99 ms',
      'log MiB',
      'kept',
      'etcd MiB',
      'in use',
      'API server MiB',
      'controller MiB',
    ],
    ...soak.footprints
      .filter((_, index) => index % 6 === 0)
      .map((held, minute) => {
        const at = soak.timeline[minute * 6]
        return [
          String(minute),
          ((at?.events ?? 0) / 10).toFixed(0),
          (at?.p50 ?? 0).toFixed(1),
          (at?.p99 ?? 0).toFixed(1),
          mib(held.log),
          String(held.finished),
          mib(held.store),
          mib(held.storeInUse),
          mib(held.apiServer),
          mib(held.controller),
        ]
      }),
  ])
}
