/** A kubelet may ask for tokens of the audience of AWS with the rule of the page, and not without. */

import { expect, inject, it } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { blockOf } from '../support/box/page.ts'
import { runKubectl } from '../support/control-plane-kubectl.ts'

async function mayAsk(audience: string): Promise<boolean> {
  const resourceAttributes = {
    verb: 'request-serviceaccounts-token-audience',
    version: 'v1',
    resource: audience,
    name: 'box',
    namespace: 'acme',
  }
  const groups = ['system:nodes', 'system:authenticated']
  const answer = await requestApi(inject('adminAccess'), {
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
    body: { spec: { user: 'system:node:one', groups, resourceAttributes } },
  })
  return (answer.body as { status: { allowed: boolean } }).status.allowed
}

it('kubelets may ask for the audience that the page allows, and for no other one', async () => {
  expect(await mayAsk('sts.amazonaws.com')).toBe(false)
  const apply = ['--kubeconfig', inject('kubeconfig'), 'apply', '-f', '-']
  await runKubectl(inject('kubectl'), apply, blockOf('yaml', 'request-serviceaccounts-token-audience'))
  await expect.poll(() => mayAsk('sts.amazonaws.com')).toBe(true)
  expect(await mayAsk('elsewhere.example.com')).toBe(false)
})
