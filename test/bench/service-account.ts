/**
 * How the bench's processes authenticate: with a token, as pods do. A client certificate would cost the API server a tenth of its
 * CPU more, since it is verified again with every request.
 */

import { writeFile } from 'node:fs/promises'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import type { AdminAccess } from '../../playground/control-plane/protocol.ts'

const LIFE_SECONDS = 24 * 3600

/** Creates a ServiceAccount with all rights and a kubeconfig for it. @throws Error if the API server rejects it */
export async function makeAccount(
  access: AdminAccess,
  account: { namespace: string; name: string },
  kubeconfigPath: string,
): Promise<void> {
  const { namespace, name } = account
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`
  await post(access, accounts, { metadata: { name } })
  await post(access, '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', namespace, name }],
  })
  const answer = await post(access, `${accounts}/${name}/token`, {
    spec: { expirationSeconds: LIFE_SECONDS },
  })
  const { token } = (answer as { status: { token: string } }).status
  await writeFile(kubeconfigPath, JSON.stringify(kubeconfigOf(access, token)), { mode: 0o600 })
}

function kubeconfigOf(access: AdminAccess, token: string) {
  const authority = Buffer.from(access.caPem).toString('base64')
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      { name: 'bench', cluster: { server: access.server, 'certificate-authority-data': authority } },
    ],
    users: [{ name: 'bench', user: { token } }],
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    'current-context': 'bench',
  }
}

async function post(access: AdminAccess, path: string, body: object): Promise<unknown> {
  const answer = await requestApi(access, { method: 'POST', path, body })
  if (answer.status !== 201) throw new Error(`POST ${path} answers ${answer.status}`)
  return answer.body
}
