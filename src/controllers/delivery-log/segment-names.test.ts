import { describe, expect, it } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import { createRandom } from '../../adapters/system/random.ts'
import { sortableName, timeOfName } from '../../domain/message-id.ts'
import { SegmentNames } from './segment-names.ts'

const HOUR = 3_600_000

function setUp() {
  const clock = new FakeClock()
  return { clock, names: new SegmentNames({ clock, random: createRandom() }) }
}

const namedAt = (time: number) => sortableName(time, fixedRandom(0.5).bytes(10))

describe('names of segments', () => {
  it('begin a list by name with what was made last, and tell when that was', async () => {
    const { clock, names } = setUp()
    const made: string[] = []
    for (const ms of [0, 0, 1, 5000]) {
      await clock.elapse(ms)
      made.push(names.next())
    }
    expect(made.toSorted().reverse()).toEqual(made)
    expect(timeOfName(made.at(-1) ?? '')).toBe(Math.floor(clock.now()))
  })

  it('are newer than what another one has made whose clock is ahead, until the own clock is there', async () => {
    const { clock, names } = setUp()
    const seen = namedAt(Math.floor(clock.now()) + HOUR)
    names.saw(seen)
    const next = names.next()
    expect(next < seen).toBe(true)
    expect(names.next() < next).toBe(true)
    await clock.elapse(HOUR + 1000)
    expect(timeOfName(names.next())).toBe(Math.floor(clock.now()))
  })

  it('are no older after the clock was set back', () => {
    const { clock, names } = setUp()
    const first = names.next()
    clock.setWallBy(-HOUR)
    expect(names.next() < first).toBe(true)
  })

  it.each(['outcomes-1', '', namedAt(2 ** 48 - 1)])('do not mind %j', (name) => {
    const { clock, names } = setUp()
    names.saw(name)
    expect(timeOfName(names.next())).toBe(Math.floor(clock.now()))
  })
})
