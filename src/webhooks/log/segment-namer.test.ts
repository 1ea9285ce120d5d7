import { describe, expect, it } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import { sortableName, timeOfName } from '../../apis/ids.ts'
import { createRandom } from '../../lib/time.ts'
import { SegmentNamer } from './kubernetes-store.ts'

const HOUR = 3_600_000

function setUp() {
  const clock = new FakeClock()
  const there: string[] = []
  const asked: number[] = []
  const first = async () => {
    asked.push(clock.monotonic())
    return there.toSorted()[0]
  }
  return { clock, there, asked, names: new SegmentNamer({ clock, random: createRandom(), first }) }
}

const namedAt = (time: number) => sortableName(time, fixedRandom(0.5).bytes(10))

describe('names of segments', () => {
  it('begin a list by name with what was made last, and tell when that was', async () => {
    const { clock, names } = setUp()
    const made: string[] = []
    for (const ms of [0, 0, 1, 5000]) {
      await clock.elapse(ms)
      made.push(await names.next())
    }
    expect(made.toSorted().reverse()).toEqual(made)
    expect(timeOfName(made.at(-1) ?? '')).toBe(Math.floor(clock.now()))
  })

  it('are newer than what another one has made whose clock is ahead, until the own clock is there', async () => {
    const { clock, names } = setUp()
    const seen = namedAt(Math.floor(clock.now()) + HOUR)
    names.observe(seen)
    const next = await names.next()
    expect(next < seen).toBe(true)
    expect((await names.next()) < next).toBe(true)
    await clock.elapse(HOUR + 1000)
    expect(timeOfName(await names.next())).toBe(Math.floor(clock.now()))
  })

  it('are no older after the clock was set back', async () => {
    const { clock, names } = setUp()
    const first = await names.next()
    clock.setWallBy(-HOUR)
    expect((await names.next()) < first).toBe(true)
  })

  it('are newer than what is there, where the watch has shown nothing for long, and ask for that no more often', async () => {
    const { clock, there, asked, names } = setUp()
    for (let second = 0; second < 10; second += 1) {
      await names.next()
      await clock.elapse(1000)
    }
    expect(asked).toEqual([0])
    there.push(namedAt(Math.floor(clock.now()) + HOUR), namedAt(Math.floor(clock.now())))
    await clock.elapse(6000)
    expect((await names.next()) < (there[0] ?? '')).toBe(true)
    for (let second = 0; second < 30; second += 1) {
      await clock.elapse(1000)
      names.observe(await names.next())
    }
    expect(asked).toEqual([0, 16_000])
  })

  it('are not made where nobody tells what is there', async () => {
    const { clock } = setUp()
    const first = async () => {
      throw new Error('no answer')
    }
    const names = new SegmentNamer({ clock, random: createRandom(), first })
    await expect(names.next()).rejects.toThrow('no answer')
    await expect(names.next()).rejects.toThrow('no answer')
  })

  it.each(['outcomes-1', '', namedAt(2 ** 48 - 1)])('do not mind %j', async (name) => {
    const { clock, names } = setUp()
    names.observe(name)
    expect(timeOfName(await names.next())).toBe(Math.floor(clock.now()))
  })
})
