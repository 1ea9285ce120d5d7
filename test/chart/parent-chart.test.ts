/** The chart as a dependency of another one. */
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { KUBERNETES_VERSION } from '../../playground/control-plane/find-binaries.mjs'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import {
  CHART,
  HELMS,
  type HelmName,
  helm,
  type Manifest,
  manifestsIn,
  type Values,
} from '../support/chart/helm.ts'

const IMAGE = { image: { repository: 'registry.example.com/davit' } }

let folder: string

beforeAll(async () => {
  await findChartTools()
  folder = await mkdtemp(join(tmpdir(), 'davit-parent-'))
  await mkdir(join(folder, 'charts'))
  await cp(CHART, join(folder, 'charts/davit'), { recursive: true })
  const dependency = { name: 'davit', version: '*', condition: 'davit.enabled', tags: ['hooks'] }
  const chart = { apiVersion: 'v2', name: 'platform', version: '1.0.0', dependencies: [dependency] }
  await writeFile(join(folder, 'Chart.yaml'), stringify(chart))
}, BUILD_LIMIT_MS)

afterAll(() => rm(folder, { recursive: true, force: true }))

/** @param more of the parent itself */
async function render(name: HelmName, davit: Values, more: Values = {}): Promise<Manifest[]> {
  await writeFile(join(folder, 'values.yaml'), stringify({ davit: { ...IMAGE, ...davit }, ...more }))
  const args = ['template', 'platform', folder, '--namespace', 'davit-system']
  const text = await helm(name, [...args, '--kube-version', KUBERNETES_VERSION])
  return manifestsIn(text)
}

describe.each(HELMS)('with %s', (name) => {
  let standard: Manifest[]

  beforeAll(async () => {
    standard = await render(name, {})
  })

  test.each<[what: string, davit: Values, more: Values]>([
    ['the condition', { enabled: true }, {}],
    ['a condition without a value', { enabled: null }, {}],
    ['values for all charts', {}, { global: { imageRegistry: 'registry.example.com' } }],
    ['values for all charts, in its own', { global: { storageClass: 'fast' } }, {}],
    ['the condition, and a tag that is off', { enabled: true }, { tags: { hooks: false } }],
  ])('is the same with %s', async (_, davit, more) => {
    expect(standard.length).toBeGreaterThan(30)
    expect(await render(name, davit, more)).toEqual(standard)
  })

  test.each<[what: string, davit: Values, more: Values]>([
    ['its condition is false', { enabled: false }, {}],
    ['its tag is off, and its condition has no value', {}, { tags: { hooks: false } }],
  ])('is not there if %s', async (_, davit, more) => {
    expect(await render(name, davit, more)).toEqual([])
  })

  test('rejects a condition that is neither true nor false', async () => {
    await expect(render(name, { enabled: 'sometimes' })).rejects.toThrow(/\/enabled/)
  })

  test.each(['aws', 'config', 'controller', 'api', 'networkPolicy', 'metrics', 'commonLabels', 'global'])(
    'has its defaults where %s of the parent is null',
    async (section) => {
      expect(await render(name, { [section]: null })).toEqual(standard)
    },
  )

  test('has its defaults where inner sections and settings of the parent are null', async () => {
    const davit = {
      api: { tls: { certManager: null }, ingress: null, serviceAccount: null },
      controller: { serviceAccount: null, podLabels: { team: null } },
      config: { maxPending: null, allowedHosts: null },
      metrics: { dashboards: null },
    }
    expect(await render(name, davit)).toEqual(standard)
  })
})
