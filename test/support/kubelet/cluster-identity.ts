/** Pods of the real API server, as AWS and a kubelet know them. */
import type { JsonWebKey } from 'node:crypto'
import { inject } from 'vitest'
import type { Account } from '../../../src/playground/aws/account.ts'
import { requestApi } from '../../../src/playground/control-plane-request.ts'
import { runKubectl } from '../control-plane-kubectl.ts'

export const AUDIENCE = 'sts.amazonaws.com'
export const SERVICE_ACCOUNT = 'box'

/** Makes the account believe the cluster's tokens. @returns the issuer, without its scheme */
export async function trustCluster(account: Account): Promise<string> {
  const { issuer } = await raw<{ issuer: string }>('/.well-known/openid-configuration')
  const { keys } = await raw<{ keys: JsonWebKey[] }>('/openid/v1/jwks')
  account.addIdentityProvider(issuer, { audiences: [AUDIENCE], keys })
  return issuer.replace('https://', '')
}

export async function makeServiceAccount(namespace: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts`
  const body = { metadata: { name: SERVICE_ACCOUNT } }
  await requestApi(inject('adminAccess'), { method: 'POST', path, body })
}

/** A token of the service account, as kubelet asks for one. */
export async function tokenOf(namespace: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${SERVICE_ACCOUNT}/token`
  const body = { spec: { audiences: [AUDIENCE] } }
  const answer = await requestApi(inject('adminAccess'), { method: 'POST', path, body })
  return (answer.body as { status: { token: string } }).status.token
}

/** Keys have a type of their own, which kubectl does not mind. */
async function raw<T>(path: string): Promise<T> {
  const args = ['--kubeconfig', inject('kubeconfig'), 'get', '--raw', path]
  return JSON.parse(await runKubectl(inject('kubectl'), args, '')) as T
}
