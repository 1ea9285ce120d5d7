import { expect, test } from 'vitest'
import { PlaneBed } from '../../../test/support/plane-bed.ts'

test('a segment is looked at again by one timer, however often that was asked for', async () => {
  const bed = new PlaneBed()
  bed.start()
  await bed.accept(bed.event([await bed.endpoint('one')]))
  const [opened] = bed.segments.values()
  if (!opened) throw new Error('no segment is open')
  const before = bed.clock.pending
  for (let n = 0; n < 5; n += 1) bed.plane.showLater(opened)
  expect(bed.clock.pending).toBe(before)
})
