/** Runbook commands that select something print exactly that. */

import { execFile } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { installCrds } from '../../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../../playground/control-plane/control-plane.ts'
import { API_VERSION, type KindDefinition } from '../../../src/apis/meta.ts'
import { registryCredentialKind } from '../../../src/apis/registry-credential.ts'
import { secretsSettingsKind } from '../../../src/apis/secrets-settings.ts'
import { webhookDeliveryKind } from '../../../src/apis/webhook-delivery.ts'
import { webhookEventKind } from '../../../src/apis/webhook-event.ts'
import { goodCredential } from '../../contract/samples/registry-credential.ts'
import { goodSettings } from '../../contract/samples/secrets-settings.ts'
import { goodDelivery } from '../../contract/samples/webhook-delivery.ts'
import { goodEvent } from '../../contract/samples/webhook-event.ts'
import { commandsOf } from '../../e2e/page-script.ts'
import { runKubectl } from '../../support/control-plane-kubectl.ts'
import { page } from '../metric-names.ts'

const CRDS = fileURLToPath(new URL('../../../crds', import.meta.url))
const AT = '2026-01-31T12:00:00.000Z'

const organization = 'acme'

let controlPlane: ControlPlane

beforeAll(async () => {
  // A separate control plane: commands that print the first ten lines of a cluster must not see objects of other tests, and no
  // Davit changes them.
  controlPlane = await startControlPlane()
  await installCrds(controlPlane, CRDS)
  await kubectl(['create', 'namespace', organization])
})

afterAll(() => controlPlane?.stop())

function kubectl(args: readonly string[], stdin = ''): Promise<string> {
  const { binaries, kubeconfigPath } = controlPlane
  return runKubectl(binaries.kubectl, ['--kubeconfig', kubeconfigPath, ...args], stdin)
}

async function make(kind: KindDefinition, name: string, spec: object, status?: object): Promise<void> {
  const object = { apiVersion: API_VERSION, kind: kind.kind, metadata: { name }, spec }
  await kubectl(['create', '-n', organization, '-f', '-'], JSON.stringify(object))
  if (!status) return
  const to = ['patch', '-n', organization, `${kind.plural}.davit.dev`, name, '--subresource=status']
  await kubectl([...to, '--type=merge', '-p', JSON.stringify({ status })])
}

const ready = (status: string, reason: string) => ({
  conditions: [
    { type: 'Verified', status: 'True', reason: 'Pulled', message: 'Yes.', lastTransitionTime: AT },
    { type: 'Ready', status, reason, message: 'Why.', lastTransitionTime: AT },
  ],
})

/** @returns lines about this test's organization, with single spaces */
async function said(runbook: string, comment: string): Promise<string[]> {
  const [block = ''] = commandsOf(page(`docs/troubleshooting/alerts/${runbook}.md`))
  const part = block.split(/^(?=# )/m).find((each) => each.startsWith(comment))
  if (part === undefined) throw new Error(`${runbook} has no commands below ${comment}`)
  // What comes after it, of something that is filled in or of Davit's own namespace, is for another place.
  const command = part.split(/\n(?=kubectl -n )/)[0] ?? ''
  const env = {
    ...process.env,
    KUBECONFIG: controlPlane.kubeconfigPath,
    PATH: `${dirname(controlPlane.binaries.kubectl)}:${process.env.PATH}`,
  }
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', command], { env })
  const lines = stdout.split('\n').filter((line) => line.includes(organization))
  return lines.map((line) => line.trim().replaceAll(/\s+/g, ' '))
}

test('DavitEventsWait shows the events without a state', async () => {
  await make(webhookEventKind, 'waits', goodEvent.spec)
  await make(webhookEventKind, 'accepted', goodEvent.spec, { state: 'accepted' })
  const lines = await said('DavitEventsWait', '# Events')
  expect(lines).toEqual([expect.stringContaining('waits')])
})

test.each(['DavitLogOverLimit', 'DavitPendingNearLimit'])('%s counts by endpoint', async (runbook) => {
  const name = (endpoint: string, n: number) => `${runbook.toLowerCase()}-${endpoint}-${n}`
  for (const [endpoint, n, state] of [
    ['billing', 1, 'retrying'],
    ['billing', 2, 'retrying'],
    ['audit', 1, 'retrying'],
    ['audit', 2, 'succeeded'],
  ] as const) {
    const spec = { ...goodDelivery.spec, endpoint: `${runbook.toLowerCase()}-${endpoint}` }
    await make(webhookDeliveryKind, name(endpoint, n), spec, { state })
  }
  const lines = (await said(runbook, '# Deliveries that wait')).filter((line) =>
    line.includes(runbook.toLowerCase()),
  )
  expect(lines).toEqual([
    `2 ${organization} ${runbook.toLowerCase()}-billing`,
    `1 ${organization} ${runbook.toLowerCase()}-audit`,
  ])
})

test('DavitOpenBytesNearLimit adds up bytes of what is unfinished by endpoint', async () => {
  const { payload: _, ...withoutBody } = goodDelivery.spec
  const segment = { segment: 'seg', event: 0, bytes: 70_000 }
  for (const [endpoint, n, body, state] of [
    ['open-billing', 1, { payload: '"é"' }, 'retrying'],
    ['open-billing', 2, { payload: '"e"' }, undefined],
    ['open-billing', 3, { payload: '"e"' }, 'exhausted'],
    ['open-audit', 1, { payloadRef: segment }, 'retrying'],
    ['open-audit', 2, { payloadRef: segment }, 'succeeded'],
  ] as const) {
    const spec = { ...withoutBody, ...body, endpoint }
    await make(webhookDeliveryKind, `${endpoint}-${n}`, spec, state && { state })
  }
  const lines = (await said('DavitOpenBytesNearLimit', '# Bytes of bodies')).filter((line) =>
    line.includes(' open-'),
  )
  expect(lines).toEqual([`70000 ${organization} open-audit`, `7 ${organization} open-billing`])
})

test('DavitCredentialsNotReady shows what is not ready, whatever else is True', async () => {
  await make(registryCredentialKind, 'fine', goodCredential.spec, ready('True', 'Stored'))
  await make(registryCredentialKind, 'refused', goodCredential.spec, ready('False', 'AccessDenied'))
  await make(registryCredentialKind, 'new', goodCredential.spec)
  await make(secretsSettingsKind, 'default', goodSettings.spec, ready('Unknown', 'Connecting'))
  const lines = await said('DavitCredentialsNotReady', '# Objects')
  expect(lines.sort()).toEqual([
    `RegistryCredential ${organization} new - -`,
    `RegistryCredential ${organization} refused AccessDenied Why.`,
    `SecretsSettings ${organization} default Connecting Why.`,
  ])
})
