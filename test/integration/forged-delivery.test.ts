/**
 * Deliveries that an organization would make for itself, with every right in its namespace and the policy that ships, on the real
 * API server: what a delivery names in the log, and what it says of its end, is Davit's word alone.
 */

import { readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { kubectl, testNamespace } from '../support/control-plane.ts'

const POLICY = new URL('../../config/admission/deliveries.yaml', import.meta.url)
/** How long the API server may take until a new policy is in force. */
const IN_FORCE = { timeout: 20_000, interval: 100 }
const REFUSED = /only Davit may create deliveries and write their status/

let organization: string
let owner: string[]

beforeAll(async () => {
  organization = await testNamespace('forged-delivery')
  const account = `system:serviceaccount:${organization}:owner`
  owner = ['--namespace', organization, `--as=${account}`, '--as-group=system:serviceaccounts']
  await kubectl(['-n', organization, 'create', 'serviceaccount', 'owner'])
  await kubectl([
    ...['-n', organization, 'create', 'rolebinding', 'owner', '--clusterrole=cluster-admin'],
    `--serviceaccount=${organization}:owner`,
  ])
  const text = await readFile(POLICY, 'utf8')
  await kubectl(['apply', '-f', '-'], text.replaceAll('deliveries.davit.dev', `deliveries.${organization}`))
  await vi.waitFor(() => expect(create(owner, 'probe')).rejects.toThrow(REFUSED), IN_FORCE)
}, 60_000)

function manifest(name: string, position = '1/0'): string {
  const deliveryId = `msg_${'0'.repeat(26)}`
  const spec = {
    ...{ endpoint: 'shop', endpointUid: 'u-1', deliveryId, eventType: 'user.created', position },
    ...{ payload: '{}', writtenAt: '2026-01-01T00:00:00Z' },
  }
  return JSON.stringify({
    apiVersion: 'davit.dev/v1alpha1',
    kind: 'WebhookDelivery',
    metadata: { name },
    spec,
  })
}

const create = (as: readonly string[], name: string, position?: string) =>
  kubectl([...as, 'create', '-f', '-'], manifest(name, position))

const ENDED = JSON.stringify({ status: { state: 'succeeded', completedAt: '2026-01-01T00:00:00Z' } })
const end = (as: readonly string[], name: string) =>
  kubectl([...as, 'patch', 'wdl', name, '--subresource=status', '--type=merge', '-p', ENDED])

describe('an owner who is cluster-admin in the namespace', () => {
  const administrator = () => ['--namespace', organization]

  test('does not make a delivery, wherever in the log it claims to be', async () => {
    await expect(create(owner, 'near')).rejects.toThrow(REFUSED)
    await expect(create(owner, 'far', '999999999999999/0')).rejects.toThrow(REFUSED)
  })

  test('does not end one, and deletes it', async () => {
    await create(administrator(), 'restored')
    await expect(end(owner, 'restored')).rejects.toThrow(REFUSED)
    await kubectl([...owner, 'delete', 'wdl', 'restored'])
  })

  test('is not who administers the cluster, who restores deliveries with what they say', async () => {
    await create(administrator(), 'from-a-backup')
    await end(administrator(), 'from-a-backup')
  })
})
