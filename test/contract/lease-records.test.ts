/** Records of replicas as Leases of the real API server. */

import { afterAll, beforeAll, beforeEach, expect, inject, it } from 'vitest'
import { leases, MAX_REPLICAS, REPLICA_LABEL } from '../../src/apis/core-kinds.ts'
import { controllerLeases, type ReplicaRecord, type ReplicaRecords } from '../../src/ha/replica-leases.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { apiLeases } from '../../src/server/peers.ts'
import { testNamespace } from '../support/control-plane.ts'

let api: KubernetesClient
let namespace: string
let records: ReplicaRecords

beforeAll(async () => {
  api = await connectKubernetes({
    kubeconfigPath: inject('kubeconfig'),
    clock: createClock(),
    random: createRandom(),
  })
})
afterAll(() => api.close())
beforeEach(async () => {
  namespace = await testNamespace('lease-records')
  records = controllerLeases({
    resources: api,
    namespace,
    clock: createClock(),
    deadlineMs: 5000,
  })
})

function record(name: string, over: Partial<ReplicaRecord> = {}): ReplicaRecord {
  return { name, session: `${name}.1`, view: [name], draining: [], leaseMs: 9000, ...over }
}

it('a record is there as it was written, and renewed over its version alone', async () => {
  const one = record('one', { view: ['one', 'two'], draining: [0, 7, 255] })
  const first = await records.write(one, undefined)
  expect(await records.list()).toEqual([{ ...one, version: first }])
  const second = await records.write({ ...one, view: [], draining: [] }, first)
  expect(second).not.toBe(first)
  expect(await records.list()).toEqual([{ ...one, view: [], draining: [], version: second }])
  await expect(records.write(one, first)).rejects.toMatchObject({ kind: 'Conflict' })
  await expect(records.write(one, undefined)).rejects.toMatchObject({ kind: 'AlreadyExists' })
  await expect(records.write(record('two'), second)).rejects.toMatchObject({ kind: 'NotFound' })
  expect(await records.list()).toHaveLength(1)
})

it('a record is removed as long as nobody has renewed it', async () => {
  const first = await records.write(record('one'), undefined)
  const second = await records.write(record('one', { draining: [1] }), first)
  await expect(records.remove('one', first)).rejects.toMatchObject({ kind: 'Conflict' })
  await records.remove('one', second)
  await expect(records.remove('one', second)).rejects.toMatchObject({ kind: 'NotFound' })
  expect(await records.list()).toEqual([])
})

it('records beyond those that there may be replicas are listed as well, page by page', async () => {
  for (let n = 0; n < MAX_REPLICAS; n += 1) await records.write(record(`r${n}`), undefined)
  expect(await records.list()).toHaveLength(MAX_REPLICAS)
  await records.write(record('more'), undefined)
  expect(await records.list()).toHaveLength(MAX_REPLICAS + 1)
})

it('a Lease that somebody has spoilt may stand for every shard, and its replica writes it anew', async () => {
  const first = await records.write(record('one'), undefined)
  const ref = { namespace, name: 'davit-controller-one' }
  await api.patch(leases, ref, { spec: { holderIdentity: null } })
  const [spoilt] = await records.list()
  expect(spoilt).toMatchObject({ name: 'one', session: '', view: [] })
  expect(spoilt?.draining).toHaveLength(256)
  await expect(records.write(record('one'), first)).rejects.toMatchObject({ kind: 'Conflict' })
  await records.write(record('one'), spoilt?.version)
  expect(await records.list()).toMatchObject([record('one')])
})

it('Leases of other roles and of others are none of them', async () => {
  const other = apiLeases({ resources: api, namespace, clock: createClock(), deadlineMs: 5000 })
  await other.write({ name: 'one', session: 'one.1', leaseMs: 9000, seen: 1 }, undefined)
  const spec = { holderIdentity: 'x', leaseDurationSeconds: 5 }
  await api.create(leases, {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace, name: 'davit-controller-not', labels: { [`${REPLICA_LABEL}-not`]: 'controller' } },
    spec,
  })
  expect(await records.list()).toEqual([])
  expect(await other.list()).toHaveLength(1)
})
