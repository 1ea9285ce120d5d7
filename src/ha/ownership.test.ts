import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, it } from 'vitest'
import { OwnershipEpochs, ownershipHere } from './ownership.ts'

/** What was begun for the shard, and is asked later whether it may write. */
function begun(epochs: OwnershipEpochs, shard: number) {
  const go = Promise.withResolvers<void>()
  const may = epochs.runWithin(shard, async () => {
    await go.promise
    await Promise.resolve()
    return epochs.mayWrite
  })
  return async () => {
    go.resolve()
    return await may
  }
}

it('what was begun for a shard may write while that is held, and no more when it was lost and won again', async () => {
  const epochs = new OwnershipEpochs()
  epochs.begin([1, 2])
  const [first, second, other] = [begun(epochs, 1), begun(epochs, 1), begun(epochs, 2)]
  expect(await first()).toBe(true)
  epochs.end([1])
  epochs.begin([1])
  expect(await second()).toBe(false)
  expect(await other()).toBe(true)
  expect(await begun(epochs, 1)()).toBe(true)
})

it('what is begun for a shard that is not held may not write, and what is done for none may', async () => {
  const epochs = new OwnershipEpochs()
  expect(await begun(epochs, 7)()).toBe(false)
  expect(epochs.mayWrite).toBe(true)
  epochs.begin([7])
  const late = begun(epochs, 7)
  epochs.end([7])
  expect(await late()).toBe(false)
})

it('what is begun for a shard that may have been taken over waits with its writes, and is not lost before that is known', async () => {
  const epochs = new OwnershipEpochs()
  epochs.begin([1, 2])
  const seen = () => [epochs.mayWrite, epochs.isRevoked]
  const look = epochs.runWithin(1, () => AsyncLocalStorage.snapshot())
  epochs.doubt([1, 3], true)
  expect([look(seen), epochs.runWithin(2, seen), seen()]).toEqual([
    [false, false],
    [true, false],
    [true, false],
  ])
  epochs.doubt([1, 3], false)
  expect(look(seen)).toEqual([true, false])
  epochs.end([1])
  expect(look(seen)).toEqual([false, true])
})

it('what is detached is of no shard', async () => {
  const epochs = new OwnershipEpochs()
  const aside = ownershipHere()
  epochs.begin([1])
  const may = epochs.runWithin(1, () => {
    epochs.end([1])
    return { inside: epochs.mayWrite, aside: aside(() => epochs.mayWrite) }
  })
  expect(may).toEqual({ inside: false, aside: true })
})
