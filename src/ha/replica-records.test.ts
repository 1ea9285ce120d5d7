import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { leases } from '../apis/core-kinds.ts'
import type { ResourceReader } from '../kube/client.ts'
import { controllerLeases, type ReplicaRecord } from './replica-leases.ts'

const SYSTEM = 'davit-system'

function recordOf(name: string): ReplicaRecord {
  return { name, session: `${name}.1`, view: [name], draining: [3, 255], leaseMs: 9000 }
}

function bed(list?: (store: MemoryStore) => ResourceReader['list']) {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  let setBack = 0
  const records = controllerLeases({
    resources: {
      get: (...args) => store.get(...args),
      list: list?.(store) ?? ((...args) => store.list(...args)),
      create: (type, object) => store.create(type, object),
      patch: (...args) => store.patch(...args),
      delete: (type, ref, precondition) => store.delete(type, ref, precondition),
    },
    namespace: SYSTEM,
    clock,
    deadlineMs: 2000,
    onStoreRestored: () => {
      setBack += 1
    },
  })
  return { clock, store, records, setBack: () => setBack }
}

describe('records of replicas as Leases', () => {
  it('are read back as they were written, with their version', async () => {
    const { records } = bed()
    const version = await records.write(recordOf('a'), undefined)
    expect(await records.list()).toEqual([{ ...recordOf('a'), version }])
    const newer = await records.write({ ...recordOf('a'), view: [] }, version)
    expect(await records.list()).toEqual([{ ...recordOf('a'), view: [], version: newer }])
    await expect(records.write(recordOf('a'), version)).rejects.toMatchObject({ kind: 'Conflict' })
  })

  it('are all listed, however many dead ones have left some', async () => {
    const { records } = bed()
    for (let n = 0; n < 600; n += 1) await records.write(recordOf(`r${n}`), undefined)
    expect(await records.list()).toHaveLength(600)
  })

  it('that cannot be read stand for any claim', async () => {
    const { store, records } = bed()
    await records.write(recordOf('a'), undefined)
    const ref = { namespace: SYSTEM, name: 'davit-controller-a' }
    await store.patch(leases, ref, { metadata: { annotations: { 'davit.dev/draining': 'everything' } } })
    const [spoilt] = await records.list()
    expect(spoilt).toMatchObject({ name: 'a', session: '', view: [] })
    expect(spoilt?.draining).toHaveLength(256)
  })

  it('tell when the store is older than what was read of it, and at no other time', async () => {
    let behind = 0
    const older =
      (store: MemoryStore): ResourceReader['list'] =>
      async (...args) => {
        const page = await store.list(...args)
        return { ...page, resourceVersion: String(Number(page.resourceVersion) - behind) }
      }
    const { records, setBack } = bed(older)
    const version = await records.write(recordOf('a'), undefined)
    await records.list()
    await records.write(recordOf('a'), version)
    await records.list()
    expect(setBack()).toBe(0)
    behind = 1
    await records.list()
    expect(setBack()).toBe(1)
  })

  it('tell so where the store has come further since than what was read of the one before', async () => {
    const { store, records, setBack } = bed()
    const first = await records.write(recordOf('a'), undefined)
    const backup = await store.get(leases, { namespace: SYSTEM, name: 'davit-controller-a' })
    await records.write(recordOf('a'), first)
    await records.list()
    const [lease] = store.all(leases)
    await store.create(leases, { metadata: { namespace: SYSTEM, name: 'something-else' } })
    expect(setBack()).toBe(0)
    Object.assign(lease?.metadata ?? {}, backup.metadata)
    await records.list()
    expect(setBack()).toBe(1)
  })

  it('tell nothing where somebody has removed a Lease, and it was made anew', async () => {
    const { store, records, setBack } = bed()
    const version = await records.write(recordOf('a'), undefined)
    await records.list()
    await store.delete(leases, { namespace: SYSTEM, name: 'davit-controller-a' })
    await records.list()
    await records.write(recordOf('a'), undefined)
    await records.list()
    expect(Number(version)).toBeGreaterThan(0)
    expect(setBack()).toBe(0)
  })
})
