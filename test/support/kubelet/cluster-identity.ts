/** Pods of the run's real API server, as AWS and a kubelet see them. */

import { inject } from 'vitest'
import { requestApi } from '../../../playground/control-plane/api-server.ts'
import type { Account } from '../../../test-support/aws/account.ts'
import { runKubectl } from '../control-plane-kubectl.ts'
import { AUDIENCE, SERVICE_ACCOUNT, trustIssuer } from './pod-role.ts'

/** Makes the account trust the cluster's tokens. @returns the issuer, without its scheme */
export async function trustCluster(account: Account): Promise<string> {
  const args = ['--kubeconfig', inject('kubeconfig')]
  return await trustIssuer(account, (more) => runKubectl(inject('kubectl'), [...args, ...more], ''))
}

export async function makeServiceAccount(namespace: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts`
  const body = { metadata: { name: SERVICE_ACCOUNT } }
  await requestApi(inject('adminAccess'), { method: 'POST', path, body })
}

/** A token of the service account like one that a kubelet requests. */
export async function tokenOf(namespace: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${SERVICE_ACCOUNT}/token`
  const body = { spec: { audiences: [AUDIENCE] } }
  const answer = await requestApi(inject('adminAccess'), { method: 'POST', path, body })
  return (answer.body as { status: { token: string } }).status.token
}
