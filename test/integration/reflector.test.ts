import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import type { RawObject } from '../../src/kube/client.ts'
import { Informer, type InformerOptions } from '../../src/kube/informer.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createRandom } from '../../src/lib/time.ts'
import { Changes } from '../support/changes.ts'
import { SkewedClock } from '../support/fake-clock.ts'
import { type Link, startLink } from '../support/link.ts'
import { NO_RUNTIME_METRICS } from '../support/no-metrics.ts'

/** The API server is killed and started again, with all kinds to serve. */
const RESTARTS_LIMIT_MS = 120_000

/** One of its own: etcd is compacted and the API server killed under others' watches. */
let controlPlane: ControlPlane
/** Writes, whatever happens to the reflectors. */
let writer: KubernetesClient
/** What the reflectors reach the API server through. */
let link: Link
let folder: string

const configMaps = { group: '', version: 'v1', plural: 'configmaps', namespaced: true }
const random = createRandom()
const cleanups: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  controlPlane = await startControlPlane()
  const { kubeconfigPath, url } = controlPlane
  writer = await connectKubernetes({ kubeconfigPath, clock: new SkewedClock(), random })
  link = await startLink(Number(new URL(url).port))
  folder = await mkdtemp(path.join(tmpdir(), 'reflector-'))
  const linked = (await readFile(kubeconfigPath, 'utf8')).replaceAll(url, `https://127.0.0.1:${link.port}`)
  await writeFile(path.join(folder, 'config'), linked, { mode: 0o600 })
})
afterAll(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup()
  await writer.close()
  await link.close()
  await controlPlane.stop()
  await rm(folder, { recursive: true })
})

async function makeNamespace(name: string): Promise<string> {
  const namespaces = { ...configMaps, plural: 'namespaces', namespaced: false }
  await writer.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  return name
}

function write(namespace: string, name: string, value: string): Promise<RawObject> {
  const metadata = { name, namespace }
  return writer.create(configMaps, { kind: 'ConfigMap', apiVersion: 'v1', metadata, data: { value } })
}

const change = (namespace: string, name: string, value: string) =>
  writer.patch(configMaps, { namespace, name }, { data: { value } })

const remove = (namespace: string, name: string) => writer.delete(configMaps, { namespace, name })

async function restartApiServer(): Promise<void> {
  process.kill(controlPlane.pids.apiServer, 'SIGKILL')
  await controlPlane.startApiServer()
}

function decode(raw: RawObject): string {
  return `${raw.metadata.name}=${(raw.data as { value?: string } | undefined)?.value}`
}

async function reflect(namespace: string, options: Partial<InformerOptions<string>> = {}) {
  const clock = new SkewedClock()
  const api = await connectKubernetes({ kubeconfigPath: path.join(folder, 'config'), clock, random })
  const happened = new Changes()
  const calls: string[] = []
  const held = new Set<string>()
  const restarts: string[] = []
  const call = (what: string) => {
    calls.push(what)
    happened.notify()
  }
  const watchRestarted = (_: string, reason: string) => {
    restarts.push(reason)
    happened.notify()
  }
  const reflector = new Informer<string>(
    {
      type: configMaps,
      query: { namespace },
      decode,
      handler: {
        applied(object, previous) {
          if (previous !== undefined) held.delete(previous)
          held.add(object)
          call(`+${object}`)
        },
        deleted(object) {
          held.delete(object)
          call(`-${object}`)
        },
      },
      ...options,
    },
    {
      api,
      clock,
      random,
      log: { info() {}, warn() {}, error() {} },
      metrics: { ...NO_RUNTIME_METRICS, watchRestarted },
    },
  ).start()
  cleanups.push(async () => {
    await reflector.stop()
    await api.close()
  })
  await reflector.synced
  const state = () => [...held].sort().join()
  return { reflector, calls, restarts, happened, clock, held, state }
}

describe('a reflector on a real API server', () => {
  it('follows creations, changes and deletions from the version of its list', async () => {
    const namespace = await makeNamespace('follow')
    await write(namespace, 'before', '1')
    const { calls, happened } = await reflect(namespace)
    await write(namespace, 'a', '1')
    await change(namespace, 'a', '2')
    await remove(namespace, 'before')
    await happened.until(() => calls.length === 4)
    expect(calls).toEqual(['+before=1', '+a=1', '+a=2', '-before=1'])
  })

  it('resumes after its connection was cut, and hears of each thing once', async () => {
    const namespace = await makeNamespace('cut')
    const { calls, happened, restarts } = await reflect(namespace)
    await write(namespace, 'a', '1')
    await happened.until(() => calls.length === 1)
    link.cut()
    await write(namespace, 'b', '1')
    await change(namespace, 'a', '2')
    await remove(namespace, 'b')
    link.restore()
    await happened.until(() => calls.length === 4)
    expect(calls).toEqual(['+a=1', '+b=1', '+a=2', '-b=1'])
    expect(restarts).not.toContain('Gone')
  })

  it('notices a connection that died without a word', async () => {
    const namespace = await makeNamespace('frozen')
    const { calls, happened, clock } = await reflect(namespace)
    await write(namespace, 'a', '1')
    await happened.until(() => calls.length === 1)
    link.freeze()
    await write(namespace, 'b', '1')
    clock.jump(90_001)
    await happened.until(() => calls.length === 2)
    expect(calls).toEqual(['+a=1', '+b=1'])
  })

  it(
    'lists again when etcd was compacted while it was cut off, and finds what it missed',
    async () => {
      const namespace = await makeNamespace('compacted')
      for (const name of ['kept', 'remade', 'removed']) await write(namespace, name, '1')
      const { reflector, calls, restarts, happened, state } = await reflect(namespace)
      const before = reflector.version
      link.cut()
      await remove(namespace, 'removed')
      await remove(namespace, 'remade')
      await write(namespace, 'remade', '2')
      await change(namespace, 'kept', '2')
      await controlPlane.compactEtcd()
      // Its cache would still know the old version; one that has just started does not.
      await restartApiServer()
      link.restore()
      await happened.until(() => state() === 'kept=2,remade=2')
      await happened.until(() => calls.length === 7)
      expect(calls.slice(3).sort()).toEqual(['+kept=2', '+remade=2', '-remade=1', '-removed=1'])
      expect(restarts).toContain('Gone')
      await write(namespace, 'next', '1')
      await happened.until(() => calls.length === 8)
      expect(reflector.version).toBeGreaterThan(before)
    },
    RESTARTS_LIMIT_MS,
  )

  it(
    'survives the death of the API server under load without losing or repeating an object',
    async () => {
      const namespace = await makeNamespace('killed')
      const cache = await reflect(namespace)
      const feed = await reflect(namespace, { streaming: true })
      const written: string[] = []
      let enough = false
      const writing = (async () => {
        for (let index = 0; !enough; index += 1) {
          await writeForSure(namespace, `n${index}`)
          written.push(`+n${index}=1`)
        }
      })()
      for (let time = 0; time < 2; time += 1) {
        const before = cache.calls.length
        await cache.happened.until(() => cache.calls.length > before + 20)
        await restartApiServer()
      }
      enough = true
      await writing
      for (const { happened, calls } of [cache, feed])
        await happened.until(() => calls.length >= written.length)
      expect([...cache.calls].sort()).toEqual([...written].sort())
      expect(feed.calls).toEqual(written)
      expect(cache.held.size).toBe(written.length)
    },
    RESTARTS_LIMIT_MS,
  )
})

/** A write whose fate is not known is made again under its name. */
async function writeForSure(namespace: string, name: string): Promise<void> {
  for (;;) {
    const done = await write(namespace, name, '1').then(
      () => true,
      (error) => error.kind === 'AlreadyExists',
    )
    if (done) return
  }
}
