import { expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { noRequeue, type ReconcileResult, requeueAfter } from '../kube/reconcile-loop.ts'
import { ShardedReconciler } from './ownership.ts'

function bed() {
  const owned = new Set([1])
  const passes: string[] = []
  const ends = new Map<string, PromiseWithResolvers<ReconcileResult>>()
  const clock = new FakeClock()
  const sharded = new ShardedReconciler({
    reconciler: {
      reconcile: (key) => {
        passes.push(key)
        const end = Promise.withResolvers<ReconcileResult>()
        ends.set(key, end)
        return end.promise
      },
    },
    ownership: { owns: (shard) => owned.has(shard) },
    shardOf: (key) => (key === 'unknown' ? undefined : Number(key.slice(-1))),
    clock,
    longestMs: 21_000,
  })
  const reconcile = (key: string) => sharded.reconcile(key, new AbortController().signal)
  return { owned, passes, ends, clock, sharded, reconcile }
}

it('passes over what is of its own shards, and over nothing else', async () => {
  const { passes, ends, reconcile } = bed()
  const own = reconcile('a1')
  expect(await reconcile('b2')).toEqual(noRequeue())
  expect(await reconcile('unknown')).toEqual(noRequeue())
  expect(passes).toEqual(['a1'])
  ends.get('a1')?.resolve(requeueAfter(5))
  expect(await own).toEqual(requeueAfter(5))
})

it('is idle when the passes of the shard that were under way have ended, also in an error', async () => {
  const { owned, ends, sharded, reconcile } = bed()
  const one = reconcile('a1')
  const two = reconcile('b1')
  owned.add(2)
  void reconcile('c2')
  let isIdle = false
  void sharded.idle(1).then(() => {
    isIdle = true
  })
  ends.get('a1')?.resolve(requeueAfter(5))
  await one
  await settle()
  expect(isIdle).toBe(false)
  ends.get('b1')?.reject(new Error('refused'))
  await expect(two).rejects.toThrow('refused')
  await settle()
  expect(isIdle).toBe(true)
})

it('waits for no pass that does not end', async () => {
  const { clock, sharded, reconcile } = bed()
  void reconcile('a1')
  let isIdle = false
  void sharded.idle(1).then(() => {
    isIdle = true
  })
  await clock.elapse(20_999)
  expect(isIdle).toBe(false)
  await clock.elapse(1)
  expect([isIdle, clock.pending]).toEqual([true, 0])
})

it('is idle at once where nothing of the shard is under way', async () => {
  await expect(bed().sharded.idle(7)).resolves.toBeUndefined()
})
