import { expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { deployments, pods } from '../apis/core-kinds.ts'
import { ApiError } from '../kube/client.ts'
import { scaleDownRelease } from './uninstall.ts'

const LIMIT_MS = 60_000
const NAMES = ['davit-controller', 'davit-api']

function bed() {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const said: string[] = []
  const note = (_event: string, message: string) => void said.push(message)
  const at = (name: string) => ({ namespace: 'davit-system', name })
  const pod = async (name: string, component: string) => {
    const metadata = { ...at(name), labels: { component } }
    await store.create(pods, { metadata })
  }
  const stop = () =>
    scaleDownRelease({
      resources: store,
      clock,
      log: { info: note, warn: note, error: note },
      namespace: 'davit-system',
      deployments: NAMES,
      labelSelector: 'component in (controller,api)',
      limitMs: LIMIT_MS,
    })
  const replicas = () => store.all(deployments).map(({ spec }) => (spec as { replicas: number }).replicas)
  const make = () =>
    Promise.all(NAMES.map((name) => store.create(deployments, { metadata: at(name), spec: { replicas: 2 } })))
  return { clock, store, said, at, pod, stop, replicas, make }
}

test('every Deployment is scaled down, and its pods are waited for', async () => {
  const { clock, store, at, pod, stop, replicas, make, said } = bed()
  await make()
  await pod('a', 'controller')
  await pod('own', 'stop')
  const stopped = stop()
  await clock.elapse(10_000)
  expect(replicas()).toEqual([0, 0])
  await expect(Promise.race([stopped, 'waits'])).resolves.toBe('waits')
  await store.delete(pods, at('a'))
  await clock.elapse(1000)
  expect(await stopped).toBe(true)
  expect(said).toEqual([])
})

test('a pod that was evicted has ended', async () => {
  const { store, at, pod, stop, make } = bed()
  await make()
  await pod('a', 'api')
  await store.patch(pods, at('a'), { status: { phase: 'Failed' } }, { subresource: 'status' })
  expect(await stop()).toBe(true)
})

test('pods that do not end are not waited for beyond the limit, which is said', async () => {
  const { clock, pod, stop, make, said } = bed()
  await make()
  await pod('a', 'api')
  const stopped = stop()
  await clock.elapse(LIMIT_MS)
  expect(await stopped).toBe(false)
  expect(said).toEqual(['pods are still running; they continue without permissions'])
})

test('a Deployment that is gone keeps nobody from uninstalling, nor does a right that is missing', async () => {
  const { store, stop, said } = bed()
  expect(await stop()).toBe(true)
  store.patch = async () => {
    throw new ApiError('Forbidden', 'no', { status: 403 })
  }
  expect(await stop()).toBe(false)
  expect(said).toEqual(['failed to stop the replicas; they stop without permissions'])
})
