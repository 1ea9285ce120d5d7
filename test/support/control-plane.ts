/**
 * The control plane of the project `cluster` (vitest.config.ts): one real API server with etcd for the whole run, with Davit's
 * CRDs. Tests share it, so each file creates its own namespace:
 *
 *   const organization = await testNamespace('endpoint-disable')
 *   await kubectl(['apply', '-n', organization, '-f', '-'], yaml)
 *   const cluster = await connectKubernetes({ kubeconfigPath: inject('kubeconfig'), clock, random })
 *
 * vitest's `inject` provides the values that are declared below. Nothing is garbage-collected and no namespace ends, since no
 * controller-manager runs: leave namespaces behind, the whole control plane is removed at the end. To stop the API server, to
 * compact etcd under the watches of others, or to change shared objects, start a separate one with `startControlPlane` of
 * playground/control-plane/control-plane.ts (three to four seconds, and `installCrds` two more).
 */

import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { inject } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import type { AdminAccess } from '../../playground/control-plane/protocol.ts'
import { runKubectl } from './control-plane-kubectl.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Path of an administrator's kubeconfig. */
    kubeconfig: string
    /** The same access in PEM, for calls without a client library. */
    adminAccess: AdminAccess
    /** Client address of etcd. */
    etcdUrl: string
    /** Path of a kubectl that is new enough. */
    kubectl: string
  }
}

export type NamespaceOptions = {
  /** Absent: it is an organization. */
  organization?: boolean
  annotations?: Record<string, string>
  /** Access to another control plane than that of the run. */
  access?: AdminAccess
}

/**
 * Creates a unique namespace, by default an organization.
 *
 * @param topic subject of the test; a DNS label of at most 40 characters, for debugging
 * @returns its name
 */
export async function testNamespace(topic: string, options: NamespaceOptions = {}): Promise<string> {
  const name = `${topic}-${randomBytes(4).toString('hex')}`
  const labels = options.organization === false ? {} : { 'davit.dev/organization': 'true' }
  const answer = await requestApi(options.access ?? inject('adminAccess'), {
    method: 'POST',
    path: '/api/v1/namespaces',
    body: { metadata: { name, labels, annotations: options.annotations ?? {} } },
  })
  if (answer.status !== 201) throw new Error(`namespace ${name}: ${JSON.stringify(answer.body)}`)
  return name
}

/**
 * Runs kubectl as an administrator of the test's control plane.
 *
 * @param stdin for `-f -`
 * @returns its output
 * @throws KubectlFailed with exit code and stderr, which contains the API server's message
 */
export function kubectl(args: readonly string[], stdin = ''): Promise<string> {
  const kubeconfig = inject('kubeconfig')
  // The discovery cache is keyed by address, which an earlier run's server may have used.
  const cache = join(dirname(kubeconfig), 'kubectl-cache')
  return runKubectl(inject('kubectl'), ['--kubeconfig', kubeconfig, '--cache-dir', cache, ...args], stdin)
}
