/** What the chart makes of what is kept elsewhere: roles and policies of config/, and the settings of the program. */
import { readdir, readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { parseConfig } from '../../src/cmd/config.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { type Manifest, RELEASE, template, type Values } from '../support/chart/helm.ts'
import { VALUE_SETS } from '../support/chart/value-sets.ts'

const CONFIG = new URL('../../config/', import.meta.url)

beforeAll(() => findChartTools(), BUILD_LIMIT_MS)

/** Without what the chart puts on every object. */
function bare({ metadata, ...rest }: Manifest): object {
  const labels = Object.entries(metadata.labels ?? {}).filter(([name]) => name.startsWith('rbac.'))
  const { name, namespace } = metadata
  return { ...rest, metadata: { name, namespace, labels: Object.fromEntries(labels) } }
}

/** As they are where the image and the places of AWS are those of a release that says nothing of them. */
async function kept(): Promise<Manifest[]> {
  const folders = ['rbac/', 'admission/']
  const files = await Promise.all(
    folders.map(async (folder) => (await readdir(new URL(folder, CONFIG))).map((name) => `${folder}${name}`)),
  )
  const texts = await Promise.all(files.flat().map((file) => readFile(new URL(file, CONFIG), 'utf8')))
  return texts
    .map((text) => text.replace(`'"*"'`, `'"registry.example.com/davit"'`).replace(`'["*"]'`, `'[]'`))
    .flatMap((text) => [...parseAllDocuments(text)])
    .map((document) => document.toJS() as Manifest)
}

test('a release named davit in davit-system has the roles and policies of config, and no other', async () => {
  const ours = (await kept()).filter(({ kind }) => kind !== 'ServiceAccount')
  const kinds = new Set(ours.map(({ kind }) => kind))
  const rendered = await template('helm4', { config: { bakeCaConfigMap: 'davit-bake-ca' } }, RELEASE)
  const byName = (a: Manifest, b: Manifest) =>
    `${a.kind}${a.metadata.name}`.localeCompare(`${b.kind}${b.metadata.name}`)
  // What Helm makes for the time of a test or of an uninstall is the chart's own.
  const isHook = ({ metadata }: Manifest) => metadata.annotations?.['helm.sh/hook'] !== undefined
  const same = rendered.filter((each) => kinds.has(each.kind) && !isHook(each)).sort(byName)
  expect(same.map(bare)).toEqual(ours.sort(byName).map(bare))
})

test('a release without authorities for bakes may read no ConfigMap of organizations', async () => {
  const rendered = await template('helm4', {}, RELEASE)
  const roles = rendered.filter(({ kind }) => kind === 'ClusterRole')
  expect(JSON.stringify(roles)).not.toContain('configmaps')
})

describe('the policy on Jobs knows', () => {
  /** Without `dyn()`, which only tells CEL that types may differ. */
  async function variablesOf(values: Values): Promise<Map<string, unknown>> {
    const rendered = await template('helm4', values, RELEASE)
    const isPolicy = ({ kind, metadata }: Manifest) =>
      kind === 'ValidatingAdmissionPolicy' && metadata.name === 'controller-jobs.davit.dev'
    const spec = rendered.find(isPolicy)?.spec as { variables: { name: string; expression: string }[] }
    const settings = spec.variables.filter(({ name }) => name !== 'job' && name !== 'pod')
    return new Map(
      settings.map(({ name, expression }) => [
        name,
        JSON.parse(expression.replaceAll('dyn(', '').replaceAll(')', '')) as unknown,
      ]),
    )
  }

  async function known(values: Values): Promise<unknown[]> {
    const variables = await variablesOf(values)
    return ['repository', 'endpoints'].map((name) => variables.get(name))
  }

  const OURS = 'registry.example.com:5000/team/davit'
  const repository = (name: string) => ({ image: { repository: name, tag: '1' } })
  const bakeImage = (image: string) => ({ config: { bakeImage: image } })

  test.each([
    { what: 'the image of the chart', given: repository(OURS), want: OURS },
    { what: 'that of bakes', given: bakeImage(`${OURS}:1`), want: OURS },
    { what: 'that by its digest', given: bakeImage(`${OURS}@sha256:${'a'.repeat(64)}`), want: OURS },
    { what: 'that by both', given: bakeImage(`${OURS}:1@sha256:${'a'.repeat(64)}`), want: OURS },
    { what: 'that by neither', given: bakeImage(OURS), want: OURS },
    { what: 'one that is no reference', given: bakeImage(`davit'"||true:1`), want: `davit'"||true` },
    { what: 'none where nothing is baked', given: { bakes: { enabled: false } }, want: '' },
  ])('$what', async ({ given, want }) => {
    expect(await known(given)).toEqual([want, []])
  })

  test('the Pods of bakes', async () => {
    const values = VALUE_SETS['bakes with Pods of their own form'] ?? {}
    const { nodeSelector, tolerations, affinity, podAnnotations } = values.bakes as Record<string, unknown>
    const variables = await variablesOf(values)
    expect(Object.fromEntries([...variables].slice(2))).toEqual({
      resources: { cpu: '2', memory: '1Gi', 'ephemeral-storage': '100Gi' },
      authorities: 'trust',
      pullSecrets: ['mirror', 'other'],
      securityContext: {
        runAsNonRoot: true,
        fsGroupChangePolicy: 'OnRootMismatch',
        supplementalGroups: [1_000_660_000],
        seccompProfile: { type: 'Localhost', localhostProfile: 'profiles/bake.json' },
      },
      nodeSelector,
      tolerations,
      affinity,
      annotations: podAnnotations,
      priorityClass: 'batch',
    })
  })

  test('where AWS is', async () => {
    const [all, ssm] = ['https://aws.example.com', 'https://ssm.example.com/?a=b&c=d']
    const config = { awsEndpointUrl: all, awsEndpointUrlSsm: ssm, awsEndpointUrlSts: all }
    expect(await known({ config })).toEqual(['registry.example.com/davit', [all, ssm]])
  })
})

type Variable = { name: string; value?: string; valueFrom?: object }
type PodOwner = { template: { spec: { containers: { env: Variable[] }[] } } }

async function environmentOf(role: string, values: Values): Promise<Record<string, string>> {
  const rendered = await template('helm4', values, RELEASE)
  const deployment = rendered.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name.endsWith(role),
  )
  const spec = deployment?.spec as PodOwner | undefined
  const given = spec?.template.spec.containers[0]?.env ?? []
  return Object.fromEntries(given.map(({ name, value }) => [name, value ?? standIn(name)]))
}

/** For what comes from a Secret, or from the pod. */
function standIn(name: string): string {
  if (name === 'DAVIT_REPLICA') return '6c2f7c1e-3a5d-4d0b-9a51-0e9d3a1b7f42'
  return name === 'DAVIT_SMTP_URL' ? 'smtp://mail.example.com:25' : 'davit-system'
}

describe.each(['controller', 'api'])('the variables of the %s', (role) => {
  test.each(Object.entries(VALUE_SETS))('are settings that it takes, where %s', async (_, values) => {
    const suffix = values.fullnameOverride === undefined ? `davit-${role}` : role
    const env = await environmentOf(suffix, values)
    expect(parseConfig(env).namespace).toBe('davit-system')
  })
})

test('a setting has in the program the value that it has in the chart, to the last digit', async () => {
  const config = parseConfig(
    await environmentOf('davit-controller', VALUE_SETS['settings of every form'] ?? {}),
  )
  expect(config.intake.writtenBytes.all).toBe(68_719_476_736)
  expect(config.intake.openBytes.organization).toBe(8_589_934_592)
  expect(config.waitScale).toBe(0.5)
  expect(config.networks).toEqual({
    allowed: ['10.0.0.0/8', 'fd00::/8'],
    denied: ['10.96.0.0/12', '2001:db9::/32'],
    hosts: [
      'hooks.example.internal',
      'receiver.acme.svc',
      'receiver.acme.svc.cluster.example',
      'other.acme.svc',
      'other.acme.svc.cluster.example',
    ],
  })
  expect(config.bake.realms).toEqual(['auth.example.com', 'tokens.example.com:8443'])
  expect(config.bake.ca).toEqual({ configMap: 'trust', key: 'ca-bundle.crt' })
  expect(config.cloud.requireWriteOnly).toBe(true)
})

test('the Pods of bakes have in the program the form that they have in the chart, null included', async () => {
  const values = VALUE_SETS['bakes with Pods of their own form'] ?? {}
  const { imagePullSecrets: _, podLabels, ...bakes } = values.bakes as Record<string, object>
  const { bake } = parseConfig(await environmentOf('davit-controller', values))
  expect(bake).toMatchObject({
    ...bakes,
    imagePullPolicy: 'Always',
    imagePullSecrets: ['mirror', 'other'],
    podLabels: { ...podLabels, team: 'platform' },
  })
})

test('an image of bakes alone has no pull policy of the chart, but one of its own', async () => {
  const policyOf = async (config: Values) => {
    const values = { image: { repository: 'registry.example.com/davit', pullPolicy: 'Always' }, config }
    return parseConfig(await environmentOf('davit-controller', values)).bake.imagePullPolicy
  }
  expect(await policyOf({})).toBe('Always')
  expect(await policyOf({ bakeImage: 'registry.example.com/other:1' })).toBeUndefined()
  expect(await policyOf({ bakeImagePullPolicy: 'Never' })).toBe('Never')
})
