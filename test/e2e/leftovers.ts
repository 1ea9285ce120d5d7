/** What there is in a cluster, and what of it was not there before. */
import type { NodeCluster } from '../node/cluster.ts'
import { waitFor } from './commands.ts'

/** Comes and goes by itself, or with what it belongs to. */
const PASSING =
  /^(events|endpoints|endpointslices|componentstatuses|nodes|csinodes|podmetrics|nodemetrics|ipaddresses)(\.|$)/
const COLUMNS = 'custom-columns=K:.kind,A:.apiVersion,NS:.metadata.namespace,N:.metadata.name'
const LIMIT_MS = 60_000

/** @returns `Kind.group namespace/name`, in order */
export async function objectsOf(cluster: NodeCluster): Promise<string[]> {
  // A kind may go between the one and the other.
  const lines = await waitFor('a list of all objects', () => listed(cluster), LIMIT_MS)
  return lines.map(nameOf).filter(isOurs).sort()
}

async function listed(cluster: NodeCluster): Promise<string[]> {
  const all = await cluster.kubectl(['api-resources', '--verbs=list,delete', '-o', 'name'])
  const resources = all.split('\n').filter((name) => name !== '' && !PASSING.test(name))
  const args = ['get', resources.join(), '-A', '--ignore-not-found', '--no-headers', '-o', COLUMNS]
  return (await cluster.kubectl(args)).split('\n').filter(Boolean)
}

function nameOf(line: string): string {
  const [kind = '', version = '', namespace = '', name = ''] = line.trim().split(/\s+/)
  const group = version.includes('/') ? `.${version.slice(0, version.indexOf('/'))}` : ''
  return `${kind}${group} ${namespace === '<none>' ? '' : `${namespace}/`}${name}`
}

/** Nodes tell of themselves by Leases. */
function isOurs(object: string): boolean {
  return !object.startsWith('Lease.coordination.k8s.io kube-')
}

export function newIn(after: readonly string[], before: readonly string[]): string[] {
  const known = new Set(before)
  return after.filter((one) => !known.has(one))
}

/** As kinds of objects and how many there are of each. */
export function countByKind(objects: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const object of objects) {
    const kind = object.slice(0, object.indexOf(' ')).split('.')[0] ?? ''
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  return [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ') || 'nothing'
}
