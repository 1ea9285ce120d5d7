/** What was measured on and with, in words. */

import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'
import { VERSION } from '../../src/lib/version.ts'
import { GOGC } from './bed.ts'

/** A line for each, by name. */
export type Facts = Record<string, string>

export function describeMachine(): Facts {
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  return {
    machine: `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'unknown kind'}, ${memory}, ${type()} ${release()}`,
  }
}

export async function describeVersions({ access, etcdUrl }: ControlPlane): Promise<Facts> {
  const { body } = await requestApi(access, { method: 'GET', path: '/version' })
  const etcd = (await (await fetch(`${etcdUrl}/version`)).json()) as { etcdserver: string }
  return {
    davit: VERSION,
    node: process.version,
    kubernetes: (body as { gitVersion: string }).gitVersion,
    etcd: etcd.etcdserver,
  }
}

export const SETTINGS: Facts = {
  store: 'etcd with fsync, one member',
  'API server': `GOGC ${GOGC}, stock but for envtest's changes, TLS, tokens of a ServiceAccount`,
  processes: 'etcd, API server, publisher, controller and receiver share the cores',
  events: 'bodies of 180 bytes, 32 publishers, one endpoint unless said otherwise',
  saturation:
    'closed loop, at most 1,000 deliveries accepted and not settled; the rate counts until the last outcome is durable',
  'REST server':
    'a process of its own with the rights that it is installed with; rate limits of keys and organizations, and of bytes written, raised except in rest-publishing, rest-tls and rest-replicas; clients keep their connections',
  latency: 'from the moment at which the event was due to its receipt, open loop at even distances',
}
