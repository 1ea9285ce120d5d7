/** With `bakes.enabled: false`: what the controller then does for templates is what its roles allow. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { stringify } from 'yaml'
import type { Environment } from '../../src/cmd/config.ts'
import type { BoxController } from '../../src/cmd/controller.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { API, code, DB, ROLE_OF_BOX, state } from '../support/baking-davit.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { template } from '../support/chart/helm.ts'
import { testNamespace } from '../support/control-plane.ts'
import { BAKE_ENV, JobStandIn } from '../support/job-stand-in.ts'
import { startLoneBakes } from '../support/lone-bakes.ts'
import { recordedApi } from '../support/recorded-api.ts'
import { scopedApi } from '../support/scoped-api.ts'
import { nameOfRight, rightsIn } from '../support/shipped-rights.ts'
import { until } from '../support/until.ts'

let organization: string
let admin: KubernetesClient
let bed: JobStandIn
let bakes: BoxController | undefined

beforeAll(async () => {
  await findChartTools()
  organization = await testNamespace('bakes-off')
  const kubeconfigPath = inject('kubeconfig')
  admin = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
  bed = new JobStandIn(admin, organization)
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await bakes?.stop()
  await admin?.close()
})

/** @returns what it does, in the words of rights */
async function start(env: Environment): Promise<ReadonlySet<string>> {
  await bakes?.stop()
  const deeds = new Set<string>()
  const api = recordedApi(scopedApi(admin, [organization]), deeds)
  bakes = await startLoneBakes({ api, organization, env })
  return deeds
}

async function rightsWithoutBakes(): Promise<string[]> {
  const values = { bakes: { enabled: false }, config: { bakeCaConfigMap: 'trust' } }
  const manifests = await template('helm4', values, { name: 'davit', namespace: 'davit-system' })
  const roles = manifests.filter(
    ({ kind, metadata }) => kind === 'ClusterRole' && metadata.name.startsWith('davit-controller'),
  )
  expect(roles).toHaveLength(2)
  return rightsIn(roles.map((role) => stringify(role)).join('---\n')).map(nameOfRight)
}

test('templates say that nothing is baked, also one whose bake was under way, and its roles allow all that it does', async () => {
  await start(BAKE_ENV)
  await bed.make('under-way', { services: [DB] })
  await bed.run(await bed.job('under-way'))
  await bed.templateWhen('under-way', state('running'))
  const deeds = await start({ DAVIT_BAKE_CA_CONFIG_MAP: 'trust' })
  await bed.make('new', { services: [DB], ...ROLE_OF_BOX, output: { persistentVolumeClaim: 'boxes' } })
  await bed.make('with-credential', { services: [API], ...ROLE_OF_BOX })
  await bed.templateWhen('new', code('bake_image_missing'))
  await bed.templateWhen('under-way', code('bake_image_missing'))
  await bed.templateWhen('with-credential', code('credential_unknown'))
  const rights = await rightsWithoutBakes()
  expect([...deeds].filter((deed) => !rights.includes(deed))).toEqual([])
  expect(deeds.size).toBeGreaterThan(4)
})

test('once there are bakes again the one that was left is removed, and the template is baked', async () => {
  const left = await bed.job('under-way')
  await start(BAKE_ENV)
  await until(
    async () =>
      (await bed.jobs('under-way')).every(({ metadata }) => metadata.uid !== left.metadata.uid) || undefined,
    () => 'the Job that was left is still there',
  )
  await bed.collect()
  await bed.wake('under-way')
  await bed.succeed('under-way')
  await bed.templateWhen('under-way', state('succeeded'))
})
