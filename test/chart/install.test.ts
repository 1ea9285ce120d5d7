/** The chart on a real API server, by both versions of Helm: what an install, an upgrade and an uninstall leave there. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { CHART, HELMS, helm } from '../support/chart/helm.ts'

/** The API server takes no larger Secret. */
const LARGEST_SECRET = 2 ** 20
const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const ENDPOINTS = `${DEFINITIONS}/webhookendpoints.davit.dev`

type Definition = { spec: { versions: { additionalPrinterColumns: { name: string }[] }[] } }
type Secrets = { items: { type: string; data: { release?: string } }[] }

let controlPlane: ControlPlane

async function call<T>(method: string, path: string, body?: object): Promise<T> {
  const contentType = method === 'PATCH' ? 'application/json-patch+json' : 'application/json'
  const call = { method, path, contentType, ...(body ? { body } : {}) }
  const { status, body: answer } = await requestApi(controlPlane.access, call)
  if (status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
  return answer as T
}

async function columns(): Promise<string[]> {
  const { spec } = await call<Definition>('GET', ENDPOINTS)
  return spec.versions[0]?.additionalPrinterColumns.map(({ name }) => name) ?? []
}

// On a control plane of its own: the kinds that the other one has left are another release's, and go only when they are deleted.
describe.each(HELMS)('with %s', (name) => {
  beforeAll(async () => {
    await findChartTools()
    controlPlane = await startControlPlane()
  }, BUILD_LIMIT_MS)

  afterAll(() => controlPlane?.stop())

  const namespace = `${name}-system`
  const run = (...args: string[]) =>
    helm(name, [...args, '--namespace', namespace], controlPlane.kubeconfigPath)
  /** Nothing runs Jobs here: uninstall.test.ts is about what the one of the chart does. */
  const uninstall = () => run('uninstall', 'davit', '--no-hooks')

  test('an organization without a namespace is refused before anything is made', async () => {
    await call('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
    const set = ['--set', 'organizations={nobody}']
    const refused = expect(run('install', 'davit', CHART, ...set)).rejects
    await refused.toThrow('the namespace nobody does not exist. Create it first')
    const { items } = await call<Secrets>('GET', `/api/v1/namespaces/${namespace}/secrets`)
    expect(items).toEqual([])
  })

  test('an install makes the kinds, and says how to come to a first delivery', async () => {
    const notes = await run('install', 'davit', CHART)
    expect(notes).toContain('kubectl -n acme annotate webhookendpoint first')
    expect(notes).toContain(`helm -n ${namespace} test davit`)
    expect(await columns()).toContain('Ready')
  })

  test('a release is far from the size that the API server does not take', async () => {
    const { items } = await call<Secrets>('GET', `/api/v1/namespaces/${namespace}/secrets`)
    const sizes = items
      .filter(({ type }) => type.startsWith('helm.sh/'))
      .map((item) => JSON.stringify(item).length)
    console.info(`a release of ${name} is a Secret of ${sizes.join(', ')} bytes`)
    expect(sizes).toHaveLength(1)
    expect(Math.max(...sizes)).toBeLessThan(LARGEST_SECRET / 4)
  })

  test('an organization in which somebody has bound the right to Secrets by hand, as the notes say, can be named later', async () => {
    const organization = `${name}-acme`
    await call('POST', '/api/v1/namespaces', { metadata: { name: organization } })
    const bindings = `/apis/rbac.authorization.k8s.io/v1/namespaces/${organization}/rolebindings`
    const roleRef = {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'davit-organization-secrets',
    }
    const subjects = [{ kind: 'ServiceAccount', name: 'davit-controller', namespace }]
    await call('POST', bindings, { metadata: { name: 'davit-secrets' }, roleRef, subjects })
    await run('upgrade', 'davit', CHART, '--set', `organizations={${organization}}`)
    const { items } = await call<{ items: { metadata: { name: string } }[] }>('GET', bindings)
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['davit-chart-secrets', 'davit-secrets'])
  })

  test('an upgrade brings a kind to what the chart has, which Helm does for no file of its folder crds', async () => {
    const all = await columns()
    // As an older chart had it.
    const older = [{ op: 'remove', path: '/spec/versions/0/additionalPrinterColumns/0' }]
    await call('PATCH', ENDPOINTS, older)
    const set = ['--set', 'api.replicas=3', '--set', 'commonLabels.team=hooks']
    await run('upgrade', 'davit', CHART, ...set, ...(name === 'helm4' ? ['--force-conflicts'] : []))
    expect(await columns()).toEqual(all)
  })

  test('an uninstall keeps the kinds with all that organizations have, and takes the rest', async () => {
    await uninstall()
    expect(await columns()).toContain('Ready')
    const { items } = await call<{ items: unknown[] }>(
      'GET',
      `/apis/apps/v1/namespaces/${namespace}/deployments`,
    )
    expect(items).toEqual([])
    const roles = await call<{ items: { metadata: { name: string } }[] }>(
      'GET',
      '/apis/rbac.authorization.k8s.io/v1/clusterroles',
    )
    expect(roles.items.filter(({ metadata }) => metadata.name.startsWith('davit'))).toEqual([])
  })

  test('a second install takes over the kinds that the first has left', async () => {
    // With another name or namespace they belong to another owner, unless a value says otherwise.
    await run('install', 'davit', CHART)
    expect(await columns()).toContain('Ready')
    await uninstall()
  })
})
