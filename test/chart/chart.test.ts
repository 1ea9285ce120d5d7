/** The chart, rendered in every way that people set it, against a real API server: its schemas, its admission, its words. */

import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { writeApiSchemas } from '../support/chart/api-schemas.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { conform } from '../support/chart/conform.ts'
import { installForeignKinds } from '../support/chart/foreign-kinds.ts'
import { HELMS, lint, type Manifest, template } from '../support/chart/helm.ts'
import { VALUE_SETS } from '../support/chart/value-sets.ts'

/** Helm is built the first time. */

const NAMESPACE = `davit-${randomBytes(3).toString('hex')}`
const RELEASE = { name: 'davit', namespace: NAMESPACE }
const SETS = Object.entries(VALUE_SETS)

let folder: string

beforeAll(async () => {
  await findChartTools()
  folder = await mkdtemp(join(tmpdir(), 'davit-chart-'))
  await mkdir(join(folder, 'schemas'))
  await installForeignKinds(inject('adminAccess'))
  expect(await writeApiSchemas(inject('adminAccess'), join(folder, 'schemas'))).toBeGreaterThan(50)
  const labels = Object.fromEntries(
    ['enforce', 'warn', 'audit'].flatMap((mode) => [
      [`pod-security.kubernetes.io/${mode}`, 'restricted'],
      [`pod-security.kubernetes.io/${mode}-version`, 'latest'],
    ]),
  )
  await makeNamespace(NAMESPACE, labels)
  for (const name of ['acme', '123']) await makeNamespace(name)
}, BUILD_LIMIT_MS)

afterAll(() => rm(folder, { recursive: true, force: true }))

async function makeNamespace(name: string, labels: Record<string, string> = {}): Promise<void> {
  const body = { metadata: { name, labels } }
  const { status } = await requestApi(inject('adminAccess'), {
    method: 'POST',
    path: '/api/v1/namespaces',
    body,
  })
  expect([201, 409]).toContain(status)
}

/** The API server's verdict on an object, as a dry run. */
async function dryRun(manifest: Manifest): Promise<{ status: number; words: string }> {
  const { status, body, warnings } = await requestApi(inject('adminAccess'), {
    method: 'PATCH',
    path: `${await pathOf(manifest)}?fieldManager=helm&force=true&dryRun=All&fieldValidation=Strict`,
    contentType: 'application/apply-patch+yaml',
    body: manifest,
  })
  const refusal = status < 300 ? '' : JSON.stringify(body)
  return { status, words: `${warnings ?? ''}${refusal}` }
}

const places = new Map<string, { plural: string; namespaced: boolean }>()

async function pathOf({ apiVersion, kind, metadata }: Manifest): Promise<string> {
  const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  if (!places.has(`${base}/${kind}`)) {
    const { body } = await requestApi(inject('adminAccess'), { method: 'GET', path: base })
    const { resources } = body as { resources: { name: string; kind: string; namespaced: boolean }[] }
    for (const { name, kind: of, namespaced } of resources.filter(({ name }) => !name.includes('/')))
      places.set(`${base}/${of}`, { plural: name, namespaced })
  }
  const place = places.get(`${base}/${kind}`)
  if (!place) throw new Error(`the API server has no ${apiVersion} ${kind}`)
  const scope = place.namespaced ? `/namespaces/${metadata.namespace ?? NAMESPACE}` : ''
  return `${base}${scope}/${place.plural}/${metadata.name}`
}

/** As the controllers of Kubernetes would make them. */
function podsOf(manifests: readonly Manifest[]): Manifest[] {
  return manifests.flatMap((manifest) => {
    if (manifest.kind === 'Pod') return [manifest]
    const { template } = (manifest.spec ?? {}) as { template?: { metadata: object; spec: object } }
    if ((manifest.kind !== 'Deployment' && manifest.kind !== 'Job') || !template) return []
    const metadata = { ...template.metadata, name: `${manifest.metadata.name}-pod`, namespace: NAMESPACE }
    return [{ apiVersion: 'v1', kind: 'Pod', metadata, spec: template.spec }]
  })
}

describe.each(HELMS)('%s', (name) => {
  test.each(SETS)('finds nothing to complain of where %s', async (_, values) => {
    expect(await lint(name, values)).toContain('0 chart(s) failed')
  })

  test.each([
    ['a value that there is not', { controler: { replicas: 2 } }, /controler/],
    ['a setting that there is not', { config: { maxPendings: 2 } }, /maxPendings/],
    ['a setting of another type', { config: { maxPending: 'many' } }, /maxPending/],
    ['a setting beyond its limit', { config: { maxPending: 0 } }, /maxPending/],
    ['a Secret in clear', { smtp: { url: 'smtp://u:p@mail' } }, /url/],
    ['TLS without a certificate', { api: { tls: { enabled: true } } }, /api\.tls\.secretName/],
    ['an Ingress without a host', { api: { ingress: { enabled: true } } }, /api\.ingress\.hosts is required/],
    [
      'an image that is not named',
      { image: { repository: '' } },
      /image\.repository is required.*docs\/guides\/build-the-image\.md/,
    ],
    [
      'a mail server without a sender',
      { smtp: { existingSecret: 'mail' } },
      /smtp\.existingSecret requires config\.smtpFrom/,
    ],
    [
      'a certificate that nothing uses',
      { api: { tls: { certManager: { enabled: true, issuerRef: { name: 'internal' } } } } },
      /certManager\.enabled requires api\.tls\.enabled/,
    ],
    [
      'a certificate without a name',
      {
        api: {
          tls: {
            enabled: true,
            certManager: { enabled: true, issuerRef: { name: 'public' }, internalNames: false },
          },
        },
      },
      /dnsNames is required/,
    ],
    [
      'more pods at least than at most',
      { api: { autoscaling: { enabled: true, minReplicas: 5, maxReplicas: 3 } } },
      /minReplicas \(5\) must not exceed .*maxReplicas \(3\)/,
    ],
    [
      'a label by which pods are found',
      { api: { podLabels: { 'app.kubernetes.io/name': 'hooks' } } },
      /api\.podLabels: must not contain app\.kubernetes\.io\/name/,
    ],
    [
      'limits that do not fit into the quota of etcd',
      { config: { maxLogBytes: 1024 * 1024 * 1024 } },
      /maxLogBytes \(1024 MiB\).* add up to 1992 MiB.* 1228 MiB: lower them, or set etcd\.quotaBytes/,
    ],
    [
      'the defaults where etcd has less than they need',
      { etcd: { quotaBytes: 1024 * 1024 * 1024 } },
      /add up to 1224 MiB.* 614 MiB/,
    ],
    ['the same with a unit', { etcd: { quotaBytes: '1Gi' } }, /add up to 1224 MiB.* 614 MiB/],
    [
      'deliveries that do not fit into a quota with a unit',
      { etcd: { quotaBytes: '4Gi' }, config: { maxPending: 1_250_000 } },
      /maxPending \(1250000\) allows objects of 2441 MiB, and all limits add up to 3665 MiB\..* 3276 MiB: lower/,
    ],
    ['a quota that is not a size', { etcd: { quotaBytes: '8 GB' } }, /quotaBytes/],
    [
      'more unfinished deliveries than the quota of etcd has space for',
      { config: { maxPending: 250_000 } },
      /maxPending \(250000\) allows objects of 488 MiB, and all limits add up to 1712 MiB\..* 1638 MiB: lower/,
    ],
    ['a role of AWS that is not named', { aws: { identity: 'irsa' } }, /aws\.roleArn/],
  ] as const)('refuses %s, and says so', async (_, values, words) => {
    await expect(template(name, values, RELEASE)).rejects.toThrow(words)
  })
})

test.each(HELMS)(
  '%s takes larger limits for a larger quota, and the defaults for the quota that etcd has',
  async (name) => {
    const GIB = 1024 * 1024 * 1024
    const larger = { maxLogBytes: GIB, maxOpenBytes: GIB, maxWrittenBytes: 2 * GIB }
    for (const values of [
      { etcd: { quotaBytes: 8 * GIB }, config: larger },
      { etcd: { quotaBytes: '8Gi' }, config: larger },
      { etcd: { quotaBytes: '8192Mi' }, config: { ...larger, maxLogBytes: '1Gi' } },
      { etcd: { quotaBytes: 2 * GIB } },
      { etcd: { quotaBytes: '2147483648' } },
    ])
      expect(await template(name, values, RELEASE)).not.toEqual([])
  },
)

describe.each(SETS)('where %s', (_, values) => {
  let manifests: Manifest[]

  beforeAll(async () => {
    manifests = await template('helm4', values, RELEASE)
    const namespaces = manifests.filter(({ kind }) => kind === 'Namespace')
    for (const { metadata } of namespaces) await makeNamespace(metadata.name)
  })

  test('Helm 3 makes the same of it as Helm 4', async () => {
    const byName = (a: Manifest, b: Manifest) => idOf(a).localeCompare(idOf(b))
    expect((await template('helm3', values, RELEASE)).sort(byName)).toEqual(manifests.toSorted(byName))
  })

  test('every object is what the schemas of the API server allow', async () => {
    const stdout = await conform(manifests, join(folder, 'schemas'))
    expect(stdout).toMatch(new RegExp(`Valid: ${manifests.length}, Invalid: 0, Errors: 0, Skipped: 0`))
  })

  test('the API server takes every object without a warning', async () => {
    const output = await Promise.all(manifests.map(async (each) => [idOf(each), await dryRun(each)] as const))
    const bad = output.filter(([, { status, words }]) => status >= 300 || words !== '')
    expect(bad.map(([id, { words }]) => `${id}: ${words}`)).toEqual([])
    expect(output.length).toBeGreaterThan(10)
  })

  test('every pod is one that the restricted standard takes', async () => {
    const pods = podsOf(manifests)
    expect(pods).toHaveLength(5)
    for (const pod of pods) expect(await dryRun(pod)).toEqual({ status: 201, words: '' })
  })
})

function idOf({ kind, metadata }: Manifest): string {
  return `${kind} ${metadata.namespace ?? ''}/${metadata.name}`
}

test('a field that a kind of others does not have is refused there', async () => {
  const manifests = await template('helm4', { metrics: { serviceMonitor: { enabled: true } } }, RELEASE)
  const monitor = manifests.find(({ kind }) => kind === 'ServiceMonitor') as Manifest
  const wrong = { ...monitor, spec: { ...(monitor.spec as object), every: '30s' } }
  expect((await dryRun(wrong)).words).toContain('every')
  expect(await conform([wrong], join(folder, 'schemas'))).toContain("'every'")
})

test('a pod that does not fit the restricted standard is refused there', async () => {
  const [pod] = podsOf(await template('helm4', {}, RELEASE))
  const spec = { ...(pod?.spec as object), hostNetwork: true }
  expect((await dryRun({ ...pod, spec } as Manifest)).status).toBe(403)
})
