/** API tokens made like `kubectl create token` does: for the REST server and for the owners of organizations. */

import { writeFile } from 'node:fs/promises'
import type { ResourceWriter } from '../src/kube/client.ts'
import { requestApi } from './control-plane/api-server.ts'
import type { ControlPlane } from './control-plane/control-plane.ts'
import { applyObject } from './installation.ts'

type Access = ControlPlane['access']

export type Account = { namespace: string; name: string }

export const OWNER = 'owner'

/** Longer than a playground is likely to run. */
const KEY_SECONDS = 30 * 24 * 3600

/** Creates the ServiceAccount `owner` of an organization and binds it to the owner role. */
export async function makeOwner(api: ResourceWriter, namespace: string): Promise<void> {
  const metadata = { namespace, name: OWNER }
  await applyObject(api, { apiVersion: 'v1', kind: 'ServiceAccount', metadata })
  await applyObject(api, {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'davit-owner' },
    subjects: [{ kind: 'ServiceAccount', ...metadata }],
  })
}

/** Writes an API token to a file that only its owner can read, without a line break. */
export async function writeKeyFile(path: string, access: Access, account: Account): Promise<void> {
  await writeFile(path, await makeToken(access, account, { audiences: ['davit'] }), { mode: 0o600 })
}

/** Writes a kubeconfig that authenticates as a ServiceAccount. */
export async function writeKubeconfig(path: string, access: Access, account: Account): Promise<void> {
  const { server, caPem } = access
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'playground',
        cluster: { server, 'certificate-authority-data': Buffer.from(caPem).toString('base64') },
      },
    ],
    users: [{ name: account.name, user: { token: await makeToken(access, account) } }],
    contexts: [{ name: 'playground', context: { cluster: 'playground', user: account.name } }],
    'current-context': 'playground',
  }
  await writeFile(path, JSON.stringify(config), { mode: 0o600 })
}

/** @param of.audiences absent: the audience of the API server @param of.seconds lifetime */
export async function makeToken(
  access: Access,
  { namespace, name }: Account,
  { audiences, seconds = KEY_SECONDS }: { audiences?: string[]; seconds?: number } = {},
): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`
  const spec = { expirationSeconds: seconds, ...(audiences ? { audiences } : {}) }
  const { status, body } = await requestApi(access, { method: 'POST', path, body: { spec } })
  if (status !== 201) throw new Error(`POST ${path} returned ${status}`)
  return (body as { status: { token: string } }).status.token
}
