import { describe, expect, test } from 'vitest'
import { ScriptedStore } from '../../../test/support/scripted-store.ts'
import { configMaps } from '../../apis/core-kinds.ts'
import { ApiError } from '../../kube/client.ts'
import { findCa } from './gather.ts'

const CA = { configMap: 'trust', key: 'ca.crt' }
const PEM = '# Root\n-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n'

async function storeWith(data?: Record<string, string>): Promise<ScriptedStore> {
  const store = new ScriptedStore(() => 0)
  const metadata = { namespace: 'acme', name: 'trust' }
  await store.create(configMaps, { metadata, ...(data === undefined ? {} : { data }) })
  return store
}

describe('the authorities of bakes', () => {
  test.for([
    { given: { 'ca.crt': PEM }, want: 'certificates' },
    { given: { 'ca.pem': PEM }, want: 'no certificates' },
    { given: { 'ca.crt': '' }, want: 'no certificates' },
    { given: { 'ca.crt': 'MII=' }, want: 'no certificates' },
    { given: undefined, want: 'no certificates' },
  ] as const)('in a ConfigMap with $given are: $want', async ({ given, want }) => {
    expect(await findCa(await storeWith(given), 'acme', CA)).toEqual({ ...CA, found: want })
  })

  test('are those of the organization itself', async () => {
    expect(await findCa(await storeWith({ 'ca.crt': PEM }), 'globex', CA)).toEqual({
      ...CA,
      found: 'nothing',
    })
  })

  test('that may not be read are told as such, and what passes by itself is not', async () => {
    const store = await storeWith({ 'ca.crt': PEM })
    const fail = (kind: 'Forbidden' | 'Unavailable') =>
      store.once('get', 'configmaps', () => {
        throw new ApiError(kind, 'the words of the API server')
      })
    fail('Forbidden')
    expect(await findCa(store, 'acme', CA)).toEqual({ ...CA, found: 'refused' })
    fail('Unavailable')
    await expect(findCa(store, 'acme', CA)).rejects.toMatchObject({ kind: 'Unavailable' })
  })
})
