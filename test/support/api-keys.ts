/** API tokens on a real API server: ServiceAccounts, the shipped roles, and tokens for both. */

import { readFile, writeFile } from 'node:fs/promises'
import { inject } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { kubectl } from './control-plane.ts'

const ROLES = new URL('../../config/rbac/', import.meta.url)

export type RoleName = 'davit-owner' | 'davit-viewer' | 'davit-publisher'

/** The roles that organizations grant, and what everyone may read; the same for every test that applies them. */
export async function applyRoles(): Promise<void> {
  for (const role of ['davit-owner', 'davit-viewer', 'davit-publisher', 'davit-event-types']) {
    // Server-side apply, because several files may create them at the same time.
    const file = await readFile(new URL(`${role}.yaml`, ROLES), 'utf8')
    await kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], file)
  }
}

/** Creates the identity of the REST server in the test's own namespace. @returns the name of its ServiceAccount */
export async function applyServerRole(namespace: string): Promise<string> {
  const text = await readFile(new URL('davit-api.yaml', ROLES), 'utf8')
  const name = `davit-api-${namespace}`
  await kubectl(
    ['apply', '-f', '-'],
    text.replaceAll('name: davit-api', `name: ${name}`).replaceAll('davit-system', namespace),
  )
  return name
}

/** Writes a kubeconfig for the holder of a token for the API server. */
export async function writeKubeconfig(path: string, token: string): Promise<void> {
  const { server, caPem } = inject('adminAccess')
  const authority = Buffer.from(caPem).toString('base64')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': authority } }],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  }
  await writeFile(path, JSON.stringify(config), { mode: 0o600 })
}

/** Creates a ServiceAccount in `namespace` with a role there. */
export async function makeAccount(namespace: string, name: string, role?: RoleName): Promise<void> {
  await post(`/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } })
  if (role === undefined) return
  await post(`/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings`, {
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  })
}

export type TokenOptions = {
  /** Absent: `davit`; empty: the API server's own. */
  audiences?: string[]
  /** A Secret of the namespace; the token ends when it is deleted. */
  boundTo?: { name: string; uid: string }
}

/** Creates a token like `kubectl create token`. */
export async function makeToken(
  namespace: string,
  name: string,
  options: TokenOptions = {},
): Promise<string> {
  const { audiences = ['davit'], boundTo } = options
  const answer = await post(`/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`, {
    spec: {
      expirationSeconds: 3600,
      ...(audiences.length === 0 ? {} : { audiences }),
      ...(boundTo ? { boundObjectRef: { apiVersion: 'v1', kind: 'Secret', ...boundTo } } : {}),
    },
  })
  return (answer as { status: { token: string } }).status.token
}

/** Two tokens that are bound to one Secret; `revoke` deletes it. */
export async function makeBoundTokens(namespace: string, name: string) {
  const secrets = `/api/v1/namespaces/${namespace}/secrets`
  const secret = (await post(secrets, { metadata: { name } })) as { metadata: { uid: string } }
  const boundTo = { name, uid: secret.metadata.uid }
  const make = () => makeToken(namespace, name, { boundTo })
  const tokens: [string, string] = [await make(), await make()]
  const revoke = async () => {
    const answer = await requestApi(inject('adminAccess'), { method: 'DELETE', path: `${secrets}/${name}` })
    if (answer.status !== 200) throw new Error(`DELETE of Secret ${name} answers ${answer.status}`)
  }
  return { tokens, revoke }
}

async function post(path: string, body: object): Promise<unknown> {
  const answer = await requestApi(inject('adminAccess'), { method: 'POST', path, body })
  if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}
