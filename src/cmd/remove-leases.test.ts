import { expect, test } from 'vitest'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { leases, REPLICA_LABEL, RESERVATION_LABEL } from '../apis/core-kinds.ts'
import { ApiError } from '../kube/client.ts'
import { removeLeases } from './uninstall.ts'

async function bed() {
  const store = new MemoryStore(() => 0)
  const lease = (namespace: string, name: string, labels: Record<string, string>) =>
    store.create(leases, { metadata: { namespace, name, labels } })
  await lease('davit-system', 'a', { [REPLICA_LABEL]: 'controller' })
  await lease('davit-system', 'b', { [REPLICA_LABEL]: 'api' })
  await lease('davit-system', 'reserved', { [RESERVATION_LABEL]: 'webhookendpoints' })
  await lease('davit-system', 'of-others', { app: 'backup' })
  await lease('elsewhere', 'c', { [REPLICA_LABEL]: 'controller' })
  const names = () => store.all(leases).map(({ metadata }) => metadata.name)
  return { store, names }
}

test('the Leases of replicas of both roles and their reservations go, and no other', async () => {
  const { store, names } = await bed()
  expect(await removeLeases(store, 'davit-system')).toBe(3)
  expect(names()).toEqual(['c', 'of-others'])
})

test('one that goes meanwhile is no error', async () => {
  const { store } = await bed()
  store.delete = async () => {
    throw new ApiError('NotFound', 'it is gone', { status: 404 })
  }
  expect(await removeLeases(store, 'davit-system')).toBe(3)
})
