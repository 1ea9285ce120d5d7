import { expect, test } from 'vitest'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { PARAMETER_FINALIZER, registryCredentials } from '../apis/registry-credential.ts'
import { ACCOUNT_FINALIZER, secretsSettingsResource } from '../apis/secrets-settings.ts'
import { ApiError } from '../kube/client.ts'
import { removeFinalizers } from './uninstall.ts'

const FOREIGN = 'example.com/keep'
const PARAMETER = {
  name: '/davit/acme/rc_a',
  version: 1,
  region: 'eu-west-1',
  account: '222222222222',
  roleArn: 'r',
}

function bed() {
  const logged: [string, unknown][] = []
  const note = (_event: string, message: string, fields?: unknown) => void logged.push([message, fields])
  const store = new MemoryStore(() => 0)
  const credential = async (name: string, finalizers: string[]) => {
    const metadata = { namespace: 'acme', name, finalizers }
    await store.create(registryCredentials, { kind: 'RegistryCredential', metadata })
    const ref = { namespace: 'acme', name }
    await store.patch(
      registryCredentials,
      ref,
      { status: { parameter: PARAMETER } },
      { subresource: 'status' },
    )
  }
  const finalizers = () => store.all(registryCredentials).map(({ metadata }) => metadata.finalizers)
  return { store, credential, finalizers, logged, log: { info: note, warn: note, error: note } }
}

test('the finalizers of Davit go, those of others and the objects stay', async () => {
  const { store, credential, finalizers, log } = bed()
  await credential('a', [PARAMETER_FINALIZER, FOREIGN])
  await credential('b', [FOREIGN])
  const metadata = { namespace: 'acme', name: 'default', finalizers: [ACCOUNT_FINALIZER] }
  await store.create(secretsSettingsResource, { kind: 'SecretsSettings', metadata })
  expect(await removeFinalizers(store, log)).toBe(2)
  expect(finalizers()).toEqual([[FOREIGN], [FOREIGN]])
  expect(store.all(secretsSettingsResource)[0]?.metadata.finalizers).toEqual([])
})

test('one that somebody writes meanwhile is let go in the next round', async () => {
  const { store, credential, finalizers, log } = bed()
  await credential('a', [PARAMETER_FINALIZER])
  const patch = store.patch.bind(store)
  let calls = 0
  store.patch = async (...args) => {
    calls += 1
    if (calls === 1) throw new ApiError('Conflict', 'it has changed', { status: 409 })
    return await patch(...args)
  }
  expect(await removeFinalizers(store, log)).toBe(1)
  expect(finalizers()).toEqual([[]])
})

test('finalizers that come back again and again are an error', async () => {
  const { store, credential, log } = bed()
  await credential('a', [PARAMETER_FINALIZER])
  store.patch = async (_, { name }) => ({ metadata: { name } })
  await expect(removeFinalizers(store, log)).rejects.toThrow(
    'check whether a Davit controller is still running',
  )
})

test('kinds that are not there any more are no error', async () => {
  const { store, log } = bed()
  store.list = async () => {
    throw new ApiError('NotFound', 'the server could not find the requested resource', { status: 404 })
  }
  expect(await removeFinalizers(store, log)).toBe(0)
})

test('of one that is being deleted is said where its secret is', async () => {
  const { store, credential, finalizers, logged, log } = bed()
  await credential('a', [PARAMETER_FINALIZER])
  await store.delete(registryCredentials, { namespace: 'acme', name: 'a' })
  await removeFinalizers(store, log)
  expect(finalizers()).toEqual([[]])
  const { account, region, name: parameter } = PARAMETER
  expect(logged[0]?.[1]).toMatchObject({ namespace: 'acme', name: 'a', account, region, parameter })
})
