import { expect, test } from 'vitest'
import { FakeApi } from '../../test/support/fake-api.ts'
import { settle } from '../../test/support/fake-clock.ts'
import { down, gone, startReflector } from '../../test/support/reflector-bed.ts'

/** A feed that has heard of something, and then of nothing for so long. `told`: in order, what was handed on, and that something may be missing. */
async function unheardFor(ms: number) {
  const reported: string[] = []
  const bed = startReflector({
    handler: { applied: ({ key }) => void reported.push(key) },
    streaming: true,
    gapDetection: { afterMs: 100_000, onGap: () => void reported.push('missed') },
  })
  await bed.reflector.synced
  bed.api.put('a')
  await settle()
  await bed.clock.elapse(ms)
  const readAgain = async (error = gone) => {
    bed.api.endWatches(error)
    await bed.clock.elapse(1000)
    await bed.reflector.stop()
    return reported
  }
  return { ...bed, readAgain }
}

test('what is new in a list after a long silence may not be all that was new', async () => {
  const { api, readAgain } = await unheardFor(101_000)
  api.put('b', { silently: true })
  api.put('c', { silently: true })
  expect(await readAgain()).toEqual(['org/a', 'missed', 'org/b', 'org/c'])
})

test('where nothing is new, nothing was missed', async () => {
  const { readAgain } = await unheardFor(3_600_000)
  expect(await readAgain()).toEqual(['org/a'])
})

test('nor after a short silence', async () => {
  const { api, readAgain } = await unheardFor(99_000)
  api.put('b', { silently: true })
  expect(await readAgain()).toEqual(['org/a', 'org/b'])
})

/** A feed whose first list begins so long after something was read in another way, up to version 100. */
async function firstListAfter(ms: number) {
  const reported: string[] = []
  const api = new FakeApi()
  api.put('a', { silently: true })
  const at = { monotonic: -ms, wall: Number.POSITIVE_INFINITY }
  const { reflector } = startReflector(
    {
      handler: { applied: ({ key }) => void reported.push(key) },
      streaming: true,
      gapDetection: {
        afterMs: 100_000,
        onGap: () => void reported.push('missed'),
        readBefore: () => ({ at, version: 100 }),
      },
    },
    api,
  )
  await reflector.synced
  await reflector.stop()
  return reported
}

test('a first list that comes long after what was read before it may not have all that was new', async () => {
  expect(await firstListAfter(101_000)).toEqual(['missed', 'org/a'])
  expect(await firstListAfter(99_000)).toEqual(['org/a'])
})

test('a bookmark is heard', async () => {
  const { api, clock, readAgain } = await unheardFor(99_000)
  api.bookmark()
  await clock.elapse(99_000)
  api.put('b', { silently: true })
  expect(await readAgain()).toEqual(['org/a', 'org/b'])
})

test('a watch that goes on from where it was misses nothing, however long that took', async () => {
  const { api, readAgain } = await unheardFor(3_600_000)
  api.put('b', { silently: true })
  expect(await readAgain(down)).not.toContain('missed')
})
