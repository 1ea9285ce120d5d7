/** The namespaces that a release has to do with, as an admin who wants restricted pods makes them. */
import { ORGANIZATION_LABEL } from '../../src/apis/meta.ts'
import type { NodeCluster } from '../node/cluster.ts'
import { DAVIT } from './pods.ts'
import { RESTRICTED } from './restricted.ts'

export const ORGANIZATION = 'davit-e2e'

/** Davit's own, and that of the organization. */
export async function makeNamespaces(cluster: NodeCluster): Promise<void> {
  const labels = { ...RESTRICTED, [ORGANIZATION_LABEL]: 'true' }
  await cluster.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: DAVIT, labels: RESTRICTED } },
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: ORGANIZATION, labels } },
  )
}
