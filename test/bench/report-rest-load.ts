/** The tables of `rest-publishing`, `rest-tls` and `rest-replicas`: for the terminal, and for the page of the benchmark. */
import { range } from './figures.ts'
import { type OF_DAVIT, REST_SERVER } from './measure/rest-turns.ts'
import type {
  RestLoadFile,
  RestPublishing,
  RestReplicas,
  RestTls,
  ServerProfile,
  Turns,
} from './rest-load-results.ts'
import type { Row } from './table.ts'

/** The first row is the heading. */
export type Table = { title: string; rows: Row[] }

export type RestLoads = Pick<RestLoadFile, 'restPublishing' | 'restTls' | 'restReplicas'>

export function restLoadTables({ restPublishing, restTls, restReplicas }: RestLoads): Table[] {
  return [
    ...(restPublishing ? publishingTables(restPublishing) : []),
    ...(restTls ? [tlsTable(restTls)] : []),
    ...(restReplicas ? [replicasTable(restReplicas)] : []),
  ]
}

/** Processes whose CPU is reported, by their name in the results. */
const PROCESSES = {
  controller: 'controller',
  [REST_SERVER]: 'REST server',
  apiServer: 'kube-apiserver',
  etcd: 'etcd',
} as const satisfies Record<(typeof OF_DAVIT)[number], string>

function publishingTables(of: RestPublishing): Table[] {
  return [speedTable(of), cpuTable(of), ...of.profiles.map(profileTable)]
}

function roundsOf({ rounds, seconds }: { rounds: number; seconds: number }): string {
  const many = rounds === 1 ? '1 round' : `median and range of ${rounds} rounds`
  return `${many}, ${seconds} s for each load`
}

function speedTable(of: RestPublishing): Table {
  return {
    title: `Publishing by REST with default settings (${roundsOf(of)})`,
    rows: [
      [
        'Load',
        'Events/s delivered',
        'Relative to the raw loop',
        'Receipt p50 (ms)',
        'Receipt p99 (ms)',
        'Response p50 (ms)',
        'Response p99 (ms)',
        'API writes per event',
      ],
      ...of.cases.map((one) => [
        one.name,
        range(one.perSecond, 0),
        range(one.ofRaw, 2),
        range(one.receipt.p50, 1),
        range(one.receipt.p99, 1),
        range(one.answered.p50, 1),
        range(one.answered.p99, 1),
        range(one.writesPerDelivery, 2),
      ]),
      ['Raw loop', range(of.raw, 0), '1', '', '', '', '', ''],
      ['Target for batches', '4500', '', '', '', '', '', ''],
      ['Target for 500 events/s', '', '', '10', '40', '', '', ''],
    ],
  }
}

function cpuTable(of: RestPublishing): Table {
  return {
    title: 'CPU per event (ms), by process',
    rows: [
      ['Load', ...Object.values(PROCESSES), 'All of these'],
      ...of.cases.map((one) => [one.name, ...cpuCells(one.cpu), range(one.allCpu, 3)]),
      ['Raw loop', '', '', range(of.rawCpu.apiServer, 3), range(of.rawCpu.etcd, 3), ''],
    ],
  }
}

function cpuCells(cpu: Turns['cpu']): string[] {
  return Object.keys(PROCESSES).map((name) => range(cpu[name], 3))
}

function profileTable({ name, busyMs, functions }: ServerProfile): Table {
  return {
    title: `REST server with ${name}: functions with the longest self time, of ${(busyMs / 1000).toFixed(1)} s of CPU`,
    rows: [
      ['Function', 'File and line', 'Self time (ms)', 'Share'],
      ...functions.map((one) => [one.name, one.place, one.ms.toFixed(0), `${(one.share * 100).toFixed(1)}%`]),
    ],
  }
}

function tlsTable(of: RestTls): Table {
  const row = (name: string, { perSecond, receipt, cpu, allCpu }: Turns) => [
    name,
    range(perSecond, 0),
    range(receipt.p50, 1),
    range(receipt.p99, 1),
    range(cpu[REST_SERVER], 3),
    range(allCpu, 3),
  ]
  return {
    title: `Publishing by REST with and without TLS (${roundsOf(of)})`,
    rows: [
      [
        'Load',
        'Events/s delivered',
        'Receipt p50 (ms)',
        'Receipt p99 (ms)',
        'CPU per event, REST server (ms)',
        'CPU per event, all of Davit, kube-apiserver and etcd (ms)',
      ],
      ...of.cases.flatMap(({ name, off, on, ratio }) => [
        row(`${name}, without TLS`, off),
        row(`${name}, with TLS`, on),
        [
          `${name}, ratio`,
          range(ratio.perSecond, 2),
          range(ratio.receipt.p50, 2),
          range(ratio.receipt.p99, 2),
          range(ratio.restServerCpu, 2),
          range(ratio.allCpu, 2),
        ],
      ]),
      ['Target for the ratio', '0.75', '1.25', '1.25', '', ''],
    ],
  }
}

function replicasTable(of: RestReplicas): Table {
  return {
    title: `Several REST servers at the same total load (${roundsOf(of)})`,
    rows: [
      [
        'Load, number of REST servers',
        'Events/s delivered',
        'Receipt p99 (ms)',
        'CPU per event, all REST servers (ms)',
        'Relative to one',
        'Added by the last one (ms)',
        'CPU per event, all of Davit, kube-apiserver and etcd (ms)',
        'All: relative to one',
        'All: added by the last one (ms)',
      ],
      ...of.loads.flatMap(({ name, counts }) =>
        counts.map((one) => [
          `${name}, ${one.servers}`,
          range(one.turns.perSecond, 0),
          range(one.turns.receipt.p99, 1),
          range(one.turns.cpu[REST_SERVER], 3),
          range(one.restServerCpu, 2),
          one.servers === 1 ? '' : range(one.addedRestServerCpu, 3),
          range(one.turns.allCpu, 3),
          range(one.allCpu, 2),
          one.servers === 1 ? '' : range(one.addedAllCpu, 3),
        ]),
      ),
      ['Target', '', '', '', '1.25', '', '', '', ''],
    ],
  }
}
