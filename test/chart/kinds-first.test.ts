/** The kinds are deleted while Davit runs: it releases their state, and works again when they are back. */

import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, test } from 'vitest'
import { installCrds, requestApi } from '../../playground/control-plane/api-server.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { registryCredential, registryCredentials } from '../../src/apis/registry-credential.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { goodCredential } from '../contract/samples/registry-credential.ts'
import { goodEndpoint } from '../contract/samples/webhook-endpoint.ts'
import { type Installation, startInstallation } from '../support/installation.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const ACME = 'acme'
const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))
const KINDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const LIMIT_MS = 120_000
const TEST_LIMIT_MS = 400_000

let davit: Installation
let controller: RoleProcess

beforeAll(async () => {
  davit = await startInstallation()
  await davit.makeOrganization(ACME)
  controller = await davit.startController()
  await controller.untilReady()
})

afterAll(() => davit?.stop())

async function kinds(): Promise<string[]> {
  const { body } = await requestApi(davit.controlPlane.access, { method: 'GET', path: KINDS })
  return (body as { items: { metadata: { name: string } }[] }).items.map(({ metadata }) => metadata.name)
}

test(
  'its kinds go, with all that it held, and what is made after they are back is worked on',
  async () => {
    const ref = { namespace: ACME, name: goodCredential.name }
    const { spec } = goodCredential
    await davit.api.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: ref,
      spec,
    })
    await until(
      async () => {
        const { metadata } = registryCredential.parse(await davit.api.get(registryCredentials, ref))
        return metadata.finalizers?.length
      },
      () => 'Davit does not hold it',
    )
    for (const name of await kinds())
      await requestApi(davit.controlPlane.access, { method: 'DELETE', path: `${KINDS}/${name}` })
    let left: string[] = []
    await until(
      async () => {
        left = await kinds()
        return left.length === 0 || undefined
      },
      () => `still there: ${left}`,
      LIMIT_MS,
    )
    await installCrds(davit.controlPlane, CRDS)
    // One that gave up is started again, as a kubelet does.
    if (!controller.running) controller = await davit.startController()
    const at = { namespace: ACME, name: goodEndpoint.name }
    await davit.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: 'WebhookEndpoint',
      metadata: at,
      spec: goodEndpoint.spec,
    })
    await until(
      async () => webhookEndpoint.parse(await davit.api.get(webhookEndpoints, at)).status?.signingSecrets,
      () => `the endpoint is not worked on; the controller runs: ${controller.running}`,
      LIMIT_MS,
    )
  },
  TEST_LIMIT_MS,
)
