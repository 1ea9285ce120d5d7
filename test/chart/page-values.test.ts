/** The values that pages show (`# mine.yaml`) are values of the chart. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { type Manifest, RELEASE, template, type Values } from '../support/chart/helm.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const VALUES = /^```yaml\n(# mine\.yaml.*?)^```$/gms

type Deployment = {
  template: { spec: { containers: { env: { name: string; value?: string }[] }[] } }
}

const examples = globSync('docs/**/*.md', { cwd: ROOT }).flatMap((page) => {
  const blocks = [...readFileSync(`${ROOT}${page}`, 'utf8').matchAll(VALUES)]
  return blocks.map(([, yaml = ''], index) => ({ page, number: index + 1, values: parse(yaml) as Values }))
})

beforeAll(() => findChartTools(), BUILD_LIMIT_MS)

/** Settings of the controller. */
async function settingsOf(values: Values): Promise<Map<string, string>> {
  const manifests = await template('helm4', values, RELEASE)
  const isController = ({ kind, metadata }: Manifest) =>
    kind === 'Deployment' && metadata.name === 'davit-controller'
  const pods = manifests.filter(isController).map((manifest) => (manifest.spec as Deployment).template)
  const variables = pods.flatMap(({ spec }) => spec.containers).flatMap(({ env }) => env)
  return new Map(variables.map(({ name, value = '' }) => [name, value]))
}

test('there are examples', () => {
  expect(new Set(examples.map(({ page }) => page)).size).toBeGreaterThan(2)
})

test.for(examples)('$page, example $number', async ({ values }) => {
  expect((await settingsOf(values)).size).toBeGreaterThan(3)
})

test('a Service of clusterReceivers is reached by its names', async () => {
  const receivers = examples.find(({ values }) => 'clusterReceivers' in values)
  const settings = await settingsOf(receivers?.values ?? {})
  const hosts = settings.get('DAVIT_ALLOWED_HOSTS')?.split(',')
  expect(hosts).toEqual(expect.arrayContaining(['orders.shop.svc', 'orders.shop.svc.cluster.local']))
})
