import { expect, it } from 'vitest'
import { OwnershipEpochs, withoutOwnership } from './ownership.ts'

/** What was begun for the shard, and is asked later whether it may write. */
function begun(tenures: OwnershipEpochs, shard: number) {
  const go = Promise.withResolvers<void>()
  const may = tenures.runWithin(shard, async () => {
    await go.promise
    await Promise.resolve()
    return tenures.mayWrite
  })
  return async () => {
    go.resolve()
    return await may
  }
}

it('what was begun for a shard may write while that is held, and no more when it was lost and won again', async () => {
  const tenures = new OwnershipEpochs()
  tenures.begin([1, 2])
  const [first, second, other] = [begun(tenures, 1), begun(tenures, 1), begun(tenures, 2)]
  expect(await first()).toBe(true)
  tenures.end([1])
  tenures.begin([1])
  expect(await second()).toBe(false)
  expect(await other()).toBe(true)
  expect(await begun(tenures, 1)()).toBe(true)
})

it('what is begun for a shard that is not held may not write, and what is done for none may', async () => {
  const tenures = new OwnershipEpochs()
  expect(await begun(tenures, 7)()).toBe(false)
  expect(tenures.mayWrite).toBe(true)
  tenures.begin([7])
  const late = begun(tenures, 7)
  tenures.endAll()
  expect(await late()).toBe(false)
})

it('what is detached is of no shard', async () => {
  const tenures = new OwnershipEpochs()
  const aside = withoutOwnership()
  tenures.begin([1])
  const may = tenures.runWithin(1, () => {
    tenures.end([1])
    return { inside: tenures.mayWrite, aside: aside(() => tenures.mayWrite) }
  })
  expect(may).toEqual({ inside: false, aside: true })
})
