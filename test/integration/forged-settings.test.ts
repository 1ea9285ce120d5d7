/**
 * What a status says of an AWS account, written by those who have every right in the namespace of an organization, with the policy that
 * ships, on the real API server: whether an account is ready is Davit's word alone.
 */

import { readFile } from 'node:fs/promises'
import { beforeAll, expect, test, vi } from 'vitest'
import { kubectl, testNamespace } from '../support/control-plane.ts'

const POLICY = new URL('../../config/admission/settings-status.yaml', import.meta.url)
/** How long the API server may take until a new policy is in force. */
const IN_FORCE = { timeout: 20_000, interval: 100 }
const REFUSED = /only Davit may write the status of settings/
const OTHER = /the connected account must be the one in the spec/
const ROLE = 'arn:aws:iam::222222222222:role/davit'

let organization: string
let owner: string[]
let administrator: string[]

beforeAll(async () => {
  organization = await testNamespace('forged-settings')
  administrator = ['--namespace', organization]
  const account = `system:serviceaccount:${organization}:owner`
  owner = [...administrator, `--as=${account}`, '--as-group=system:serviceaccounts']
  await kubectl([...administrator, 'create', 'serviceaccount', 'owner'])
  await kubectl([
    ...[...administrator, 'create', 'rolebinding', 'owner', '--clusterrole=cluster-admin'],
    `--serviceaccount=${organization}:owner`,
  ])
  const text = await readFile(POLICY, 'utf8')
  const own = text.replaceAll('settings-status.davit.dev', `settings-status.${organization}`)
  await kubectl(['apply', '-f', '-'], own)
  await kubectl([...owner, 'create', '-f', '-'], settings({ region: 'eu-west-1', roleArn: ROLE }))
  let tries = 0
  await vi.waitFor(() => {
    tries += 1
    return expect(tell(owner, { account: `${tries}` })).rejects.toThrow(REFUSED)
  }, IN_FORCE)
}, 60_000)

function settings(spec: object): string {
  return JSON.stringify({
    apiVersion: 'davit.dev/v1alpha1',
    kind: 'SecretsSettings',
    metadata: { name: 'default' },
    spec,
  })
}

const tell = (as: readonly string[], status: object) =>
  kubectl([
    ...[...as, 'patch', 'secretssettings', 'default', '--subresource=status', '--type=merge', '-p'],
    JSON.stringify({ status }),
  ])

const READY = {
  observedGeneration: 1,
  connected: { roleArn: ROLE, region: 'eu-west-1' },
  conditions: [
    {
      type: 'Ready',
      status: 'True',
      reason: 'Connected',
      message: 'So they say.',
      observedGeneration: 1,
      lastTransitionTime: '2026-01-01T00:00:00Z',
    },
  ],
}

test('an owner who is cluster-admin in the namespace does not declare an account ready, nor change what to paste', async () => {
  await expect(tell(owner, READY)).rejects.toThrow(REFUSED)
  await expect(tell(owner, { trustPolicy: '{}' })).rejects.toThrow(REFUSED)
  await kubectl([
    ...owner,
    'patch',
    'secretssettings',
    'default',
    '--type=merge',
    '-p',
    '{"spec":{"region":"eu-west-2"}}',
  ])
  await kubectl([
    ...owner,
    'patch',
    'secretssettings',
    'default',
    '--type=merge',
    '-p',
    '{"spec":{"region":"eu-west-1"}}',
  ])
})

test('who administers the cluster repairs a status, and connects no account that the spec does not name', async () => {
  await tell(administrator, READY)
  const thief = { ...READY.connected, roleArn: ROLE.replaceAll('2', '6') }
  await expect(tell(administrator, { connected: thief })).rejects.toThrow(OTHER)
  await expect(tell(administrator, { connected: { kmsKeyId: 'alias/thief' } })).rejects.toThrow(OTHER)
  await tell(administrator, { connected: null })
})
