/** What is said of a Secret of `spec.signingSecret` that cannot be written. */

import { expect, it } from 'vitest'
import type { WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { ApiError } from '../../kube/client.ts'
import { SharedSecrets } from './signing-keys.ts'

const ENDPOINT = {
  metadata: { name: 'billing', namespace: 'acme', uid: 'u1' },
  spec: { signingSecret: { name: 'key' } },
} as unknown as WebhookEndpoint
const KEY = { secret: 'whsec_a', createdAt: '2026-01-31T12:00:00.000Z', shared: true }

async function messageFor(error: ApiError): Promise<string | undefined> {
  const resources = { create: () => Promise.reject(error) }
  const shared = new SharedSecrets(resources as never, {} as never, { now: () => 0 })
  return (await shared.sync(ENDPOINT, [KEY]))?.message
}

it('that the right is missing is said with who gives it', async () => {
  const words =
    'secrets is forbidden: User "system:serviceaccount:davit-system:davit-controller" cannot create resource "secrets" in API group "" in the namespace "acme"'
  expect(await messageFor(new ApiError('Forbidden', words))).toBe(
    'Davit cannot write to the Secret key (spec.signingSecret): Davit does not have access to Secrets in this namespace. Ask your cluster operator to bind the ClusterRole davit-organization-secrets to the Davit controller in this namespace.',
  )
})

it('what a policy or a quota says is said in its own words', async () => {
  for (const kind of ['Forbidden', 'Quota'] as const)
    expect(await messageFor(new ApiError(kind, 'denied: ask the platform team'))).toBe(
      'Davit cannot write to the Secret key (spec.signingSecret): denied: ask the platform team.',
    )
})
