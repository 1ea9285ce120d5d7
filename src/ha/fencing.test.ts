import { expect, it } from 'vitest'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { leases } from '../apis/core-kinds.ts'
import { withFencing } from './ownership.ts'

const REF = { namespace: 'davit-system', name: 'one' }

function bed() {
  const store = new MemoryStore(() => 0)
  const watch = async function* () {
    yield []
  }
  const state = { mayAct: true }
  const api = withFencing(
    {
      get: (...args) => store.get(...args),
      list: (...args) => store.list(...args),
      create: (type, object) => store.create(type, object),
      patch: (...args) => store.patch(...args),
      delete: (type, ref, precondition) => store.delete(type, ref, precondition),
      watch,
    },
    () => state.mayAct,
  )
  return { store, state, api }
}

it('lets everything through while the replica may act', async () => {
  const { api } = bed()
  expect((await api.create(leases, { metadata: REF })).metadata.name).toBe('one')
  expect(await api.patch(leases, REF, { spec: { a: 1 } })).toMatchObject({ spec: { a: 1 } })
  await api.delete(leases, REF)
  expect((await api.list(leases, {})).items).toEqual([])
})

it('refuses every write before it is sent while others may think that the replica is gone, and goes on afterwards', async () => {
  const { api, store, state } = bed()
  await api.create(leases, { metadata: REF })
  const version = store.version
  state.mayAct = false
  const writes = [
    () => api.create(leases, { metadata: { ...REF, name: 'two' } }),
    () => api.patch(leases, REF, { spec: { a: 1 } }),
    () => api.delete(leases, REF),
  ]
  for (const write of writes)
    await expect(write()).rejects.toMatchObject({
      kind: 'Unavailable',
      message: expect.stringContaining('failed to renew its Lease'),
    })
  expect(store.version).toBe(version)
  state.mayAct = true
  await api.delete(leases, REF)
  expect(store.version).toBe(version + 1)
})

it('reads and watches all the time', async () => {
  const { api, state, store } = bed()
  await store.create(leases, { metadata: REF })
  state.mayAct = false
  expect((await api.get(leases, REF)).metadata.name).toBe('one')
  expect((await api.list(leases, {})).items).toHaveLength(1)
  for await (const events of api.watch(leases, {}, '1', new AbortController().signal))
    expect(events).toEqual([])
})
