import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type ApiErrorKind, isApiError, type RawObject, type WatchEvent } from '../../src/kube/client.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { kubectl, testNamespace } from '../support/control-plane.ts'
import { SkewedClock } from '../support/fake-clock.ts'

const core = (plural: string, namespaced = true) => ({ group: '', version: 'v1', plural, namespaced })
const configMaps = core('configmaps')
const jobs = { group: 'batch', version: 'v1', plural: 'jobs', namespaced: true }
const quotas = core('resourcequotas')
const namespaces = core('namespaces', false)

const clock = createClock()
const random = createRandom()
let api: KubernetesClient
let namespace: string

beforeAll(async () => {
  api = await connectKubernetes({ kubeconfigPath: inject('kubeconfig'), clock, random })
  namespace = await testNamespace('ports')
})
afterAll(() => api.close())

function configMap(name: string, data: Record<string, string> = {}, where = namespace): RawObject {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: where }, data }
}

function expectKind(call: Promise<unknown>, kind: ApiErrorKind): Promise<void> {
  return expect(call).rejects.toMatchObject({ name: 'ApiError', kind })
}

describe('resources on a real API server', () => {
  it('are created, read, patched and deleted', async () => {
    const created = await api.create(configMaps, configMap('life', { text: 'ünïcode 𝄞' }))
    expect(created.metadata.uid).toMatch(/^[0-9a-f-]{36}$/)
    const ref = { namespace, name: 'life' }
    expect(await api.get(configMaps, ref)).toMatchObject({ data: { text: 'ünïcode 𝄞' } })
    const patched = await api.patch(configMaps, ref, { data: { text: null, more: 'yes' } })
    expect(patched.data).toEqual({ more: 'yes' })
    await api.delete(configMaps, ref)
    await expectKind(api.get(configMaps, ref), 'NotFound')
    await expectKind(api.delete(configMaps, ref), 'NotFound')
    await expectKind(api.patch(configMaps, ref, {}), 'NotFound')
  })

  it('go with what they own where that is asked for, and leave it behind otherwise', async () => {
    const spec = { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'a' }] } } }
    for (const name of ['left', 'whole']) {
      const metadata = { namespace, name }
      await api.create(jobs, { apiVersion: 'batch/v1', kind: 'Job', metadata, spec })
    }
    await api.delete(jobs, { namespace, name: 'whole' }, {}, { dependents: 'Background' })
    await expectKind(api.get(jobs, { namespace, name: 'whole' }), 'NotFound')
    // When a Job is orphaned, its pods keep running: it stays until they have no owner.
    await api.delete(jobs, { namespace, name: 'left' })
    const { metadata } = await api.get(jobs, { namespace, name: 'left' })
    expect(metadata).toMatchObject({ finalizers: ['orphan'] })
  })

  it('are written under the name of davit', async () => {
    const { metadata } = await api.create(configMaps, configMap('managed', { a: 'b' }))
    expect(metadata.managedFields).toMatchObject([{ manager: 'davit', operation: 'Update' }])
  })

  it('answer with metadata alone where that is asked for', async () => {
    const created = await api.create(configMaps, configMap('slim', { a: 'b' }), { answer: 'metadata' })
    expect(created.metadata.resourceVersion).toMatch(/^\d+$/)
    expect(created).not.toHaveProperty('data')
    const ref = { namespace, name: 'slim' }
    const patched = await api.patch(configMaps, ref, { data: { a: 'c' } }, { answer: 'metadata' })
    expect(patched).not.toHaveProperty('data')
    expect((await api.get(configMaps, ref)).data).toEqual({ a: 'c' })
  })

  it('tell a name that is taken from an object that has changed', async () => {
    const first = await api.create(configMaps, configMap('twice'))
    await expectKind(api.create(configMaps, configMap('twice')), 'AlreadyExists')
    const ref = { namespace, name: 'twice' }
    await api.patch(configMaps, ref, { data: { a: '1' } })
    const { resourceVersion, uid } = first.metadata
    const stale = { metadata: { resourceVersion }, data: { a: '2' } }
    await expectKind(api.patch(configMaps, ref, stale), 'Conflict')
    await expectKind(api.delete(configMaps, ref, { resourceVersion: resourceVersion ?? '' }), 'Conflict')
    const stranger = { uid: '00000000-0000-0000-0000-000000000000' }
    await expectKind(api.delete(configMaps, ref, stranger), 'Conflict')
    await api.delete(configMaps, ref, { uid: uid ?? '' })
  })

  it('are tried without being changed', async () => {
    await api.create(configMaps, configMap('tried', { a: '1' }))
    const ref = { namespace, name: 'tried' }
    const tried = await api.patch(configMaps, ref, { data: { a: '2' } }, { dryRun: true })
    expect(tried.data).toEqual({ a: '2' })
    expect((await api.get(configMaps, ref)).data).toEqual({ a: '1' })
    await expectKind(api.patch(configMaps, ref, { data: { a: 1 } }, { dryRun: true }), 'Invalid')
  })

  it('are patched by many at a time, as long as none asks for a version', async () => {
    const { metadata } = await api.create(configMaps, configMap('busy'))
    const ref = { namespace, name: 'busy' }
    const writers = Array.from({ length: 40 }, (_, index) =>
      api.patch(configMaps, ref, { metadata: { uid: metadata.uid }, data: { [`w${index}`]: 'x' } }),
    )
    const ended = await Promise.allSettled(writers)
    const failed = ended.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    expect(failed.filter((error) => !isApiError(error, 'Unavailable'))).toEqual([])
  })

  it('are not patched under the UID of another', async () => {
    await api.create(configMaps, configMap('recreated'))
    const stranger = { metadata: { uid: '00000000-0000-0000-0000-000000000000' }, data: { a: '1' } }
    await expectKind(api.patch(configMaps, { namespace, name: 'recreated' }, stranger), 'Invalid')
  })

  it('have a status of their own', async () => {
    const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'q', namespace } }
    await api.create(quotas, { ...quota, spec: { hard: { pods: '1' } }, status: { hard: { pods: '9' } } })
    const ref = { namespace, name: 'q' }
    const change = { spec: { hard: { pods: '7' } }, status: { hard: { pods: '1' } } }
    const patched = await api.patch(quotas, ref, change, { subresource: 'status' })
    expect(patched).toMatchObject({ spec: { hard: { pods: '1' } }, status: { hard: { pods: '1' } } })
  })

  it('are listed in pages of one version, by label and by field', async () => {
    const own = await testNamespace('ports-list')
    for (let index = 0; index < 7; index += 1) {
      const object = configMap(`c${index}`, {}, own)
      object.metadata.labels = { parity: index % 2 === 0 ? 'even' : 'odd' }
      await api.create(configMaps, object)
    }
    const first = await api.list(configMaps, { namespace: own, limit: 3 })
    await api.create(configMaps, configMap('c1a', {}, own))
    const second = await api.list(configMaps, { namespace: own, limit: 500 }, first.continue)
    const names = [...first.items, ...second.items].map((item) => item.metadata.name)
    expect(names).toEqual(['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6'])
    expect([second.resourceVersion, second.continue]).toEqual([first.resourceVersion, undefined])
    const even = await api.list(configMaps, { namespace: own, labelSelector: 'parity in (even)' })
    expect(even.items).toHaveLength(4)
    const one = await api.list(configMaps, { namespace: own, fieldSelector: 'metadata.name=c5' })
    expect(one.items.map((item) => item.metadata.name)).toEqual(['c5'])
    const anywhere = await api.list(configMaps, { labelSelector: 'parity=odd' })
    expect(anywhere.items).toHaveLength(3)
  })

  it('are refused with a kind that says why', async () => {
    await expectKind(api.create(configMaps, configMap('too-large', { a: 'x'.repeat(1_500_000) })), 'Invalid')
    const huge = configMap('huge', { a: 'x'.repeat(4_000_000) })
    await expectKind(api.create(configMaps, huge), 'TooLarge')
    await expectKind(api.create(configMaps, configMap('lost', {}, 'no-such-namespace')), 'NotFound')
    await expectKind(api.list(core('nosuchthings'), { namespace }), 'NotFound')
    await expectKind(api.list(configMaps, { namespace, labelSelector: 'a==b==c' }), 'BadRequest')
    const wrong = { ...configMap('wrong'), data: 'no map' }
    await expectKind(api.create(configMaps, wrong), 'BadRequest')
    await expectKind(api.list(configMaps, { namespace }, 'no-token'), 'BadRequest')
  })

  it('that etcd finds too large are told so', async () => {
    // Above etcd's 1.5 MiB, below the API server's 3 MiB; a kind whose own limit does not come first.
    const annotated = {
      apiVersion: 'davit.dev/v1alpha1',
      kind: 'WebhookEvent',
      metadata: { name: 'big', namespace },
    }
    const events = { group: 'davit.dev', version: 'v1alpha1', plural: 'webhookevents', namespaced: true }
    const object = { ...annotated, spec: { type: 'a.b', data: { text: 'x'.repeat(2_000_000) } } }
    await expectKind(api.create(events, object), 'TooLarge')
  })

  it('are refused as Quota where a quota is used up', async () => {
    const own = await testNamespace('ports-quota')
    const spec = { hard: { 'count/configmaps': '1' } }
    const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'one', namespace: own }, spec }
    await api.create(quotas, quota)
    // What the controller-manager would write.
    const status = { ...spec, used: { 'count/configmaps': '1' } }
    await api.patch(quotas, { namespace: own, name: 'one' }, { status }, { subresource: 'status' })
    await expect
      .poll(
        () => api.create(configMaps, configMap(`c${clock.now()}`, {}, own)).catch((error) => error.kind),
        {
          timeout: 10_000,
        },
      )
      .toBe('Quota')
  })

  it('are refused as Terminating in a namespace that is being deleted', async () => {
    const own = await testNamespace('ports-end')
    await api.delete(namespaces, { name: own })
    await expect
      .poll(
        () => api.create(configMaps, configMap(`c${clock.now()}`, {}, own)).catch((error) => error.kind),
        {
          timeout: 10_000,
        },
      )
      .toBe('Terminating')
  })
})

describe('a watch on a real API server', () => {
  it('tells of everything after its version, in order, until it is aborted', async () => {
    const own = await testNamespace('ports-watch')
    const { resourceVersion } = await api.list(configMaps, { namespace: own })
    const abort = new AbortController()
    const events: WatchEvent[] = []
    const reading = (async () => {
      for await (const batch of api.watch(configMaps, { namespace: own }, resourceVersion, abort.signal)) {
        events.push(...batch)
        if (events.length >= 3) abort.abort()
      }
    })().catch(() => undefined)
    await api.create(configMaps, configMap('w', { a: '1' }, own))
    await api.patch(configMaps, { namespace: own, name: 'w' }, { data: { a: '2' } })
    await api.delete(configMaps, { namespace: own, name: 'w' })
    await reading
    expect(events.map((event) => event.type)).toEqual(['ADDED', 'MODIFIED', 'DELETED'])
    const versions = events.map((event) =>
      event.type === 'BOOKMARK' ? 0 : Number(event.object.metadata.resourceVersion),
    )
    expect(versions).toEqual([...versions].sort((a, b) => a - b))
  })
})

describe('credentials on a real API server', () => {
  /** A client that has nothing but this token, in a file. */
  async function clientWith(token: string) {
    const folder = await mkdtemp(path.join(tmpdir(), 'ports-'))
    const admin = inject('adminAccess')
    const cluster = {
      name: 'c',
      cluster: { server: admin.server, 'certificate-authority-data': base64(admin.caPem) },
    }
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      clusters: [cluster],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'c' } }],
      users: [{ name: 'c', user: { tokenFile: 'token' } }],
    }
    await writeFile(path.join(folder, 'config'), JSON.stringify(config))
    await writeFile(path.join(folder, 'token'), token)
    const skewed = new SkewedClock()
    const kubeconfigPath = path.join(folder, 'config')
    const client = await connectKubernetes({ kubeconfigPath, clock: skewed, random })
    const close = async () => {
      await client.close()
      await rm(folder, { recursive: true })
    }
    return { client, folder, skewed, close }
  }
  const base64 = (pem: string) => Buffer.from(pem).toString('base64')

  it('of a service account may do what its role says, and no more; a token that is none may do nothing', async () => {
    await kubectl(['create', 'serviceaccount', 'reader', '-n', namespace])
    await kubectl(['create', 'role', 'reader', '--verb=get', '--resource=configmaps', '-n', namespace])
    await kubectl([
      'create',
      'rolebinding',
      'reader',
      '--role=reader',
      `--serviceaccount=${namespace}:reader`,
      '-n',
      namespace,
    ])
    await api.create(configMaps, configMap('readable', { a: 'b' }))
    const token = (await kubectl(['create', 'token', 'reader', '-n', namespace])).trim()
    const { client, folder, skewed, close } = await clientWith('nonsense')
    const ref = { namespace, name: 'readable' }
    await expectKind(client.get(configMaps, ref), 'Unauthorized')
    // The file is read again at once, not after a minute, but not again within five seconds.
    await writeFile(path.join(folder, 'token'), token)
    skewed.jump(5_000)
    expect((await client.get(configMaps, ref)).data).toEqual({ a: 'b' })
    await expectKind(client.list(configMaps, { namespace }), 'Forbidden')
    await expectKind(client.delete(configMaps, ref), 'Forbidden')
    const watch = client.watch(configMaps, { namespace }, '1', new AbortController().signal)
    await expectKind(watch[Symbol.asyncIterator]().next(), 'Forbidden')
    await close()
  })
})
