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
