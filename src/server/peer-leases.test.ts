import { expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { MAX_REPLICAS } from '../apis/core-kinds.ts'
import { apiLeases } from './peers.ts'

it('the Leases of very many REST servers that are gone can all be listed and deleted', async () => {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const records = apiLeases({ resources: store, namespace: 'davit-system', clock })
  const left = MAX_REPLICAS + 5
  for (let n = 0; n < left; n += 1)
    await records.write({ name: `gone-${n}`, session: `s${n}`, seen: 7, leaseMs: 9000 }, undefined)
  const found = await records.list()
  expect(found).toHaveLength(left)
  for (const { name, version } of found) await records.remove(name, version)
  expect(await records.list()).toEqual([])
})
