/** The Job that the program makes with the settings of the chart, and the policy of the chart, on the real API server. */
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { stringify } from 'yaml'
import { jobs } from '../../src/apis/core-kinds.ts'
import { buildBakeJob, buildBakeOrder } from '../../src/boxes/controller/bake-job.ts'
import { parseConfig } from '../../src/cmd/config.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { type Manifest, template, type Values } from '../support/chart/helm.ts'
import { VALUE_SETS } from '../support/chart/value-sets.ts'
import { kubectl, testNamespace } from '../support/control-plane.ts'
import { connectAsController } from '../support/controller-identity.ts'

/** How long the API server may take to apply a new policy. */
const IN_FORCE = { timeout: 20_000, interval: 50 }
const FORM = VALUE_SETS['bakes with Pods of their own form'] ?? {}
const NO_IDS = { runAsUser: null, runAsGroup: null, fsGroup: null }

let organization: string
let operator: string
let stolen: KubernetesClient

beforeAll(async () => {
  organization = await testNamespace('bake-policy')
  operator = await testNamespace('bake-policy-system', { organization: false })
  const [kubeconfigPath, access] = [inject('kubeconfig'), inject('adminAccess')]
  stolen = await connectAsController({ access, namespace: operator, organizations: [], kubeconfigPath })
}, 60_000)

afterAll(() => stolen?.close())

/** A release in the namespace of this test, whose policies have names of their own. */
function release(values: Values): Promise<Manifest[]> {
  return template('helm4', values, { name: 'davit', namespace: operator })
}

async function applyPolicies(manifests: readonly Manifest[]): Promise<void> {
  const policies = manifests
    .filter(({ metadata }) => metadata.name.endsWith('controller-jobs.davit.dev'))
    .map((policy) => stringify(policy).replaceAll('controller-jobs.davit.dev', `controller-jobs.${operator}`))
  await kubectl(['apply', '-f', '-'], policies.join('---\n'))
}

type Owner = { template: { spec: { containers: { env: { name: string; value?: string }[] }[] } } }

let made = 0

function jobOf(manifests: readonly Manifest[]) {
  const deployment = manifests.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'davit-controller',
  )
  const owner = deployment?.spec as Owner | undefined
  const variables = owner?.template.spec.containers[0]?.env ?? []
  const environment = variables.filter(({ value, name }) => value !== undefined && name !== 'DAVIT_REPLICA')
  const { bake } = parseConfig(Object.fromEntries(environment.map(({ name, value }) => [name, value])))
  made += 1
  const name = `bake-${made}`
  const template = {
    metadata: { name, namespace: organization, uid: 'u-1', resourceVersion: '1', generation: 1 },
    spec: { services: [{ name: 'api', kind: 'custom' as const, image: 'ghcr.io/acme/api:1' }] },
  }
  const settings = { ...bake, image: bake.image ?? '' }
  const services = [{ name: 'api', image: 'ghcr.io/acme/api:1' }]
  const order = buildBakeOrder(template, { name, services }, settings)
  return buildBakeJob({ template, order, settings })
}

async function rejection(manifests: readonly Manifest[]): Promise<string> {
  return await stolen.create(jobs, jobOf(manifests)).then(
    () => 'made',
    (error: Error) => error.message,
  )
}

describe.each<[string, Values, foreign: Values, RegExp]>([
  ['nothing is set', {}, FORM, /volumes other than its output/],
  ['Pods have a form of their own', FORM, {}, /that (is|are) set in the policy/],
  [
    'the cluster gives users by namespace',
    { bakes: { podSecurityContext: NO_IDS } },
    { bakes: { podSecurityContext: { runAsUser: 1 } } },
    /security context/,
  ],
  [
    'nothing is left of the security context',
    {
      bakes: {
        podSecurityContext: {
          ...NO_IDS,
          runAsNonRoot: null,
          fsGroupChangePolicy: null,
          seccompProfile: null,
        },
      },
    },
    {},
    /security context/,
  ],
  [
    'bakes have nodes of their own',
    { bakes: { nodeSelector: { pool: 'bakes' }, tolerations: [{ key: 'bakes', operator: 'Exists' }] } },
    { bakes: { nodeSelector: { pool: 'bakes' }, tolerations: [{ operator: 'Exists' }] } },
    /nodes that are set/,
  ],
  [
    'bakes have less of everything',
    { config: { bakeCpu: '100m', bakeMemory: '128Mi', bakeScratch: '1Gi' } },
    {},
    /volumes other than its output/,
  ],
])('where %s', (_, values, foreign, words) => {
  let ours: Manifest[]

  beforeAll(async () => {
    ours = await release(values)
    await applyPolicies(ours)
    const theirs = await release(foreign)
    await vi.waitFor(async () => expect(await rejection(theirs)).toMatch(words), IN_FORCE)
  })

  test('the Job of the program is what the policy expects', async () => {
    expect(await rejection(ours)).toBe('made')
  })
})
