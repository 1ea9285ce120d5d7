/** What keeps objects and namespaces from going when Davit is uninstalled: nothing, whatever goes first. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { PARAMETER_FINALIZER } from '../../src/apis/registry-credential.ts'
import { ACCOUNT_FINALIZER } from '../../src/apis/secrets-settings.ts'
import { goodCredential } from '../contract/samples/registry-credential.ts'
import { goodSettings } from '../contract/samples/secrets-settings.ts'
import { commandsOf } from '../e2e/page-script.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { CHART, HELMS, helm } from '../support/chart/helm.ts'
import { runHook } from '../support/chart/run-hook.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)

const TEST_LIMIT_MS = 300_000
const GONE_LIMIT_MS = 240_000
const PAGE = new URL('../../docs/guides/uninstall.md', import.meta.url)
const SYSTEM = 'davit-system'

type Condition = { type: string; status: string; message?: string }
type Kind = {
  metadata: { name: string; deletionTimestamp?: string; finalizers?: string[] }
  status?: { conditions?: Condition[] }
}

/** Why a kind has not gone, as the API server says. */
function stateOfKind({ metadata: { name, deletionTimestamp, finalizers }, status }: Kind) {
  const terminating = status?.conditions?.find(({ type }) => type === 'Terminating')?.message
  return { name, deletionTimestamp, finalizers, terminating }
}

const KINDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const ACME = '/apis/davit.dev/v1alpha1/namespaces/acme'
const CREDENTIAL = `${ACME}/registrycredentials/${goodCredential.name}`
const SETTINGS = `${ACME}/secretssettings/default`
const FOREIGN = 'example.com/keep'
/** What Helm knows of releases. */
const RECORDS = `/api/v1/namespaces/${SYSTEM}/secrets?labelSelector=owner%3Dhelm`
const ELSEWHERE = 'davit-elsewhere'
const SCOPED_TO_CLUSTER = [
  '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
]

type Live = { metadata: { finalizers?: string[] } }
type Named = { metadata: { name: string; labels: Record<string, string> } }
type Answer = { status: number; body: unknown }

describe.each(HELMS)('with %s', { timeout: TEST_LIMIT_MS }, (name) => {
  let controlPlane: ControlPlane
  let folder: string

  beforeAll(async () => {
    await findChartTools()
    folder = await mkdtemp(join(tmpdir(), 'davit-uninstall-'))
    controlPlane = await startControlPlane()
    for (const namespace of [SYSTEM, ELSEWHERE, 'acme'])
      await call('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
    await release('install', 'davit', CHART)
  }, BUILD_LIMIT_MS)

  afterAll(async () => {
    await controlPlane?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  function release(...args: string[]): Promise<string> {
    return helm(name, [...args, '--namespace', SYSTEM], controlPlane.kubeconfigPath)
  }

  async function call(method: string, path: string, body?: object): Promise<Answer> {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    return await requestApi(controlPlane.access, { method, path, contentType, ...(body ? { body } : {}) })
  }

  /** As a controller of Davit has left them. */
  async function makeHeld(): Promise<void> {
    const make = async (collection: string, kind: string, object: object, finalizers: string[]) => {
      const { name: given, spec } = object as { name: string; spec: object }
      const metadata = { name: given, finalizers }
      const body = { apiVersion: 'davit.dev/v1alpha1', kind, metadata, spec }
      await until(
        async () => (await call('POST', `${ACME}/${collection}`, body)).status === 201 || undefined,
        () => `${kind} is not taken`,
      )
    }
    await make('registrycredentials', 'RegistryCredential', goodCredential, [PARAMETER_FINALIZER, FOREIGN])
    await make('secretssettings', 'SecretsSettings', goodSettings, [ACCOUNT_FINALIZER])
  }

  async function finalizersOf(path: string): Promise<string[] | undefined> {
    const { status, body } = await call('GET', path)
    return status === 404 ? undefined : ((body as Live).metadata.finalizers ?? [])
  }

  /** Of the page, the one that begins so. */
  async function pasteBlock(first: string): Promise<void> {
    const blocks = commandsOf(await readFile(PAGE, 'utf8'))
    const block = blocks.find((each) => each.startsWith(first))
    if (block === undefined) throw new Error(`the page has no block that begins with ${first}`)
    const kubectl = dirname(controlPlane.binaries.kubectl)
    const env = {
      ...process.env,
      PATH: `${kubectl}:${process.env.PATH}`,
      KUBECONFIG: controlPlane.kubeconfigPath,
    }
    await run('bash', ['-euo', 'pipefail', '-c', block], { env })
  }

  function hook(job: string): Promise<string> {
    return runHook({ controlPlane, namespace: SYSTEM, job, folder })
  }

  test('the chart first: its Job takes the finalizers of Davit off, objects stay, and can be deleted', async () => {
    await makeHeld()
    await Promise.all([release('uninstall', 'davit'), hook('davit-stop'), hook('davit-cleanup')])
    expect(await finalizersOf(CREDENTIAL)).toEqual([FOREIGN])
    expect(await finalizersOf(SETTINGS)).toEqual([])
    for (const plural of ['clusterroles', 'clusterrolebindings']) {
      const { body } = await call('GET', `/apis/rbac.authorization.k8s.io/v1/${plural}`)
      const { items } = body as { items: { metadata: { name: string } }[] }
      expect(items.filter(({ metadata }) => metadata.name.startsWith('davit'))).toEqual([])
    }
    await call('PATCH', CREDENTIAL, { metadata: { finalizers: [] } })
    for (const path of [CREDENTIAL, SETTINGS]) {
      await call('DELETE', path)
      expect(await finalizersOf(path)).toBeUndefined()
    }
  })

  test('nobody runs: the lines of the page let go what is being deleted, and take off no finalizer of others', async () => {
    await makeHeld()
    for (const path of [CREDENTIAL, SETTINGS]) await call('DELETE', path)
    expect(await finalizersOf(SETTINGS)).toEqual([ACCOUNT_FINALIZER])
    await pasteBlock('# No Davit is running')
    expect(await finalizersOf(SETTINGS)).toBeUndefined()
    expect(await finalizersOf(CREDENTIAL)).toEqual([FOREIGN])
    await call('PATCH', CREDENTIAL, { metadata: { finalizers: [] } })
    expect(await finalizersOf(CREDENTIAL)).toBeUndefined()
  })

  test('a restore has brought the record of the release back: an install is refused, an upgrade makes what is missing', async () => {
    await release('install', 'davit', CHART)
    const { body } = await call('GET', RECORDS)
    await release('uninstall', 'davit', '--no-hooks')
    for (const { metadata, ...record } of (body as { items: Named[] }).items) {
      const { name: given, labels } = metadata
      const path = `/api/v1/namespaces/${SYSTEM}/secrets`
      await call('POST', path, { ...record, metadata: { name: given, labels } })
    }
    await expect(release('install', 'davit', CHART)).rejects.toThrow(/cannot re-?use a name/)
    await release('upgrade', '--install', 'davit', CHART)
    const deployment = `/apis/apps/v1/namespaces/${SYSTEM}/deployments/davit-controller`
    expect((await call('GET', deployment)).status).toBe(200)
  })

  test('its own namespace first: an install elsewhere is refused, until the lines of the page have run', async () => {
    // What goes with the namespace, and tells Helm of the release.
    await call('DELETE', RECORDS)
    const elsewhere = ['install', 'davit', CHART, '--namespace', ELSEWHERE, '--take-ownership']
    const install = (args: string[]) => helm(name, args, controlPlane.kubeconfigPath)
    const refused = install(elsewhere.slice(0, -1))
    await expect(refused).rejects.toThrow(/exists and cannot be imported/)
    await pasteBlock("# Davit's namespace is gone")
    for (const path of SCOPED_TO_CLUSTER) {
      const { body } = await call('GET', `${path}?labelSelector=app.kubernetes.io%2Fname%3Ddavit`)
      expect((body as { items: [] }).items, path).toEqual([])
    }
    await install(elsewhere)
  })

  test('the kinds at last: each goes, with what it has', async () => {
    const { body } = await call('GET', KINDS)
    const names = (body as { items: { metadata: { name: string } }[] }).items.map(
      ({ metadata }) => metadata.name,
    )
    expect(names).toHaveLength(9)
    await Promise.all(names.map((each) => call('DELETE', `${KINDS}/${each}`)))
    let left: Kind[] = []
    await until(
      async () => {
        left = ((await call('GET', KINDS)).body as { items: Kind[] }).items
        return left.length === 0 || undefined
      },
      () => `kinds are still there: ${JSON.stringify(left.map(stateOfKind))}`,
      GONE_LIMIT_MS,
    )
  })
})
