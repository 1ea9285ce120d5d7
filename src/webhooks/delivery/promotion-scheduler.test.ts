import { expect, test } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'

test('a segment is looked at again by one timer, however often that was asked for', async () => {
  const bed = new EngineBed()
  bed.start()
  await bed.accept(bed.event([await bed.endpoint('one')]))
  const [opened] = bed.segments.values()
  if (!opened) throw new Error('no segment is open')
  const before = bed.clock.pending
  for (let n = 0; n < 5; n += 1) bed.engine.promotions.promoteLater(opened)
  expect(bed.clock.pending).toBe(before)
})

test('segments that come within a quarter of a second are looked at together, none before two seconds', async () => {
  const bed = new EngineBed()
  bed.start()
  const hanging = await bed.endpoint('one', { concurrency: 10 })
  const shown = []
  const timers = [bed.clock.pending]
  for (const waitMs of [0, 200, 100]) {
    await bed.elapse(waitMs)
    await bed.accept(bed.event([hanging]))
    timers.push(bed.clock.pending)
  }
  for (const waitMs of [1699, 271, 279, 21]) {
    await bed.elapse(waitMs)
    shown.push(bed.objects.length)
  }
  // The first and the second after 2,250 ms of the first, the third by itself; a record comes before each object.
  expect(shown).toEqual([0, 2, 2, 3])
  const [none = 0, one = 0, two = 0, three = 0] = timers
  expect(two - one).toBe(one - none - 1)
  expect(three - two).toBe(one - none)
})
