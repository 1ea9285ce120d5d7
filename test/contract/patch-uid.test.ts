/** What a patch is answered that is for an object with another UID. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { secrets } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { testNamespace } from '../support/control-plane.ts'

let api: KubernetesClient
let namespace: string

beforeAll(async () => {
  api = await connectKubernetes({
    kubeconfigPath: inject('kubeconfig'),
    clock: createClock(),
    random: createRandom(),
  })
  namespace = await testNamespace('patch-uid')
})
afterAll(() => api.close())

test.each([
  { of: 'a kind of its own', type: secrets, fields: { apiVersion: 'v1', kind: 'Secret' } },
  {
    of: 'a custom resource',
    type: webhookEndpoints,
    fields: {
      apiVersion: API_VERSION,
      kind: 'WebhookEndpoint',
      spec: { url: 'https://receiver.example', eventTypes: ['*'] },
    },
  },
])('the API server takes it as one that breaks a rule: $of', async ({ type, fields }) => {
  const ref = { namespace, name: 'another' }
  const { metadata } = await api.create(type, { ...fields, metadata: ref })
  const patch = (uid: string | undefined) => api.patch(type, ref, { metadata: { uid, labels: { a: 'b' } } })
  await expect(patch('00000000-0000-0000-0000-000000000000')).rejects.toMatchObject({
    kind: 'Invalid',
    status: 422,
  })
  expect((await patch(metadata.uid)).metadata).toMatchObject({ labels: { a: 'b' } })
})
