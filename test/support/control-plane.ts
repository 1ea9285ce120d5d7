/**
 * The control plane of the project `cluster` (vitest.config.ts): one real API server with etcd for the whole run,
 * with Davit's CRDs. Tests run beside each other on it, so each file makes its own namespace:
 *
 *   const organization = await testNamespace('endpoint-disable')
 *   await kubectl(['apply', '-n', organization, '-f', '-'], yaml)
 *   const cluster = await connectKubernetes({ kubeconfigPath: inject('kubeconfig'), clock, random })
 *
 * `inject` of vitest gives what is declared below. Nothing is garbage-collected and no namespace ends, since no
 * controller-manager runs: leave namespaces behind, the whole control plane goes at the end. Who stops the API
 * server, compacts etcd under others' watches, or changes what all share starts one of their own with
 * `startControlPlane` of playground/control-plane/control-plane.ts (three to four seconds, and `installCrds` two more).
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
    /** The same in PEM, for calls without a client library. */
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
  /** On another control plane than that of the run. */
  access?: AdminAccess
}

/**
 * A new namespace that no other test has, an organization unless said otherwise.
 *
 * @param topic what the test is about; a DNS label of at most 40 characters, for people who debug
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
 * kubectl as an administrator of the test's control plane.
 *
 * @param stdin for `-f -`
 * @returns what it printed
 * @throws KubectlFailed with exit code and stderr, which has the API server's words
 */
export function kubectl(args: readonly string[], stdin = ''): Promise<string> {
  const kubeconfig = inject('kubeconfig')
  // Answers of discovery are kept by address, and another run's server may have had this one.
  const cache = join(dirname(kubeconfig), 'kubectl-cache')
  return runKubectl(inject('kubectl'), ['--kubeconfig', kubeconfig, '--cache-dir', cache, ...args], stdin)
}
