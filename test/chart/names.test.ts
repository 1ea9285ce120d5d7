/** Names of a release that Helm takes, and Kubernetes does not take for every object: those with dots, and long ones. */
import { beforeAll, describe, expect, test } from 'vitest'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { HELMS, template, type Values } from '../support/chart/helm.ts'

/** The name of a Service. */
const SERVICE = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/
/** The names of most other objects. */
const OTHER = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const AS_SERVICES = ['Service', 'Namespace', 'Deployment', 'Pod', 'Job']
const MOST = {
  metrics: {
    serviceMonitor: { enabled: true },
    prometheusRule: { enabled: true },
    dashboards: { enabled: true },
  },
}

beforeAll(() => findChartTools(), BUILD_LIMIT_MS)

describe.each(HELMS)('%s', (name) => {
  test.each<[release: string, values: Values, prefix: string]>([
    ['davit', {}, 'davit'],
    ['my.davit', {}, 'my-davit'],
    ['hooks.prod.v1', {}, 'hooks-prod-v1-davit'],
    ['a.b', { nameOverride: 'hooks' }, 'a-b-hooks'],
    ['a.b', { fullnameOverride: 'hooks' }, 'hooks'],
    ['1.2', { fullnameOverride: 'hooks' }, 'hooks'],
    [`${'a'.repeat(39)}.b`, {}, 'a'.repeat(39)],
    [`${'a'.repeat(37)}--${'b'.repeat(9)}`, {}, `${'a'.repeat(37)}--b`],
    ['d', { fullnameOverride: `${'h'.repeat(39)}-x` }, 'h'.repeat(39)],
  ])('gives the release %s, with %j, names that start with %s', async (release, values, prefix) => {
    const rendered = await template(
      name,
      { ...MOST, ...values },
      { name: release, namespace: 'davit-system' },
    )
    for (const { kind, metadata } of rendered)
      expect(`${kind} ${metadata.name}`).toMatch(
        AS_SERVICES.includes(kind) ? new RegExp(`^${kind} ${SERVICE.source.slice(1)}`) : /./,
      )
    const bad = rendered.filter(({ metadata }) => !OTHER.test(metadata.name))
    expect(bad).toEqual([])
    const services = rendered.filter(({ kind }) => kind === 'Service').map(({ metadata }) => metadata.name)
    expect(services).toContain(`${prefix}-api`)
  })

  test.each(['1davit', '2024', '1.davit'])('rejects the release %s, and names the value', async (release) => {
    const rendered = template(name, {}, { name: release, namespace: 'davit-system' })
    await expect(rendered).rejects.toThrow(
      `the release name ${release} starts with a digit, which the name of a Service must not: set fullnameOverride`,
    )
  })
})

test('a ServiceAccount may have dots in its name', async () => {
  const values = { controller: { serviceAccount: { name: 'davit.controller' } } }
  const rendered = await template('helm4', values, { name: 'davit', namespace: 'davit-system' })
  const accounts = rendered.filter(({ kind }) => kind === 'ServiceAccount')
  expect(accounts.map(({ metadata }) => metadata.name)).toContain('davit.controller')
})
