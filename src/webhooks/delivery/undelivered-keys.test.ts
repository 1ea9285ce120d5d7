import { describe, expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'

const MINUTE = 60_000

describe('an event with a key', () => {
  it.each([
    { where: 'in a segment before', together: false },
    { where: 'in the same segment', together: true },
  ])('is not delivered behind a place of its key that nobody got, $where', async ({ together }) => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.start()
    // Two processes, of which one did not know the endpoint yet.
    const [unsent, behind] = [bed.event([], 'key'), bed.event([endpoint], 'key')]
    if (together) await bed.accept(unsent, behind)
    else for (const event of [unsent, behind]) await bed.accept(event)
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toEqual([])
    expect(await bed.records()).toMatchObject([{ kind: 'canceled', reason: 'Duplicate' }])
    expect(bed.segments.size).toBe(0)
  })

  it('is delivered before a place of its key that nobody got', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.start()
    await bed.accept(bed.event([endpoint], 'key'), bed.event([], 'key'))
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(1)
  })

  it('is not delivered again when the wall clock is set ahead between two places of its key', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.start()
    await bed.accept(bed.event([endpoint], 'key'))
    await bed.elapse(1000)
    bed.clock.setWallBy(60 * MINUTE)
    await bed.accept(bed.event([endpoint], 'another key'))
    await bed.accept(bed.event([endpoint], 'key'))
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(2)
  })
})

describe('a key that was used by a clock that was ahead', () => {
  it.each([
    { hours: 23, sent: 0 },
    { hours: 25, sent: 1 },
  ])('is used again by an event $hours hours later, which is sent $sent times', async ({ hours, sent }) => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.start()
    const year = 365 * 24 * 60 * MINUTE
    bed.clock.setWallBy(year)
    await bed.accept(bed.event([], 'key'))
    bed.clock.setWallBy(-year)
    await bed.accept(bed.event([], 'another key'))
    bed.clock.setWallBy(hours * 60 * MINUTE)
    await bed.accept(bed.event([endpoint], 'key'))
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(sent)
  })
})
