import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { fc } from '../../test/support/fast-check.ts'
import type { Logger } from './log.ts'
import { Timers } from './timers.ts'

function recordingLog(): Logger & { errors: string[] } {
  const errors: string[] = []
  return { errors, info() {}, warn() {}, error: (message) => void errors.push(message) }
}

function start(clock = new FakeClock()) {
  const fired: string[] = []
  const log = recordingLog()
  const timers = new Timers<string>({ clock, log }, (key) => void fired.push(key))
  return { clock, timers, fired, log }
}

/** Of a machine that has run for a day. */
function aged(): FakeClock {
  const clock = new FakeClock()
  clock.advance(86_400_000)
  return clock
}

describe('timers', () => {
  it('call back at their time and not before, in the order of their times', () => {
    const { clock, timers, fired } = start()
    timers.set('late', clock.now() + 2_000)
    timers.set('early', clock.now() + 1_000)
    clock.advance(999)
    expect(fired).toEqual([])
    clock.advance(1)
    expect(fired).toEqual(['early'])
    clock.advance(1_000)
    expect(fired).toEqual(['early', 'late'])
    expect(timers.size).toBe(0)
  })

  it('never call back within set, even for a time that has passed', () => {
    const { clock, timers, fired } = start()
    timers.set('past', clock.now() - 5_000)
    expect(fired).toEqual([])
    clock.advance(0)
    expect(fired).toEqual(['past'])
  })

  it('reach a time that is further away than a timer of Node can be', () => {
    const { clock, timers, fired } = start()
    const ninetyDays = 90 * 86_400_000
    timers.set('far', clock.now() + ninetyDays)
    clock.advance(ninetyDays - 1)
    expect(fired).toEqual([])
    clock.advance(1)
    expect(fired).toEqual(['far'])
  })

  it('notice within 30 seconds that the wall clock was set ahead', () => {
    const { clock, timers, fired } = start()
    timers.set('tomorrow', clock.now() + 86_400_000)
    clock.setWallBy(86_400_000)
    clock.advance(30_000)
    expect(fired).toEqual(['tomorrow'])
  })

  it('wait no longer than what is set after the wall clock was set ahead', () => {
    const { clock, timers, fired } = start()
    timers.set('before', clock.now() + 20_000)
    clock.setWallBy(10_000)
    timers.set('after', clock.now() + 1000)
    clock.advance(1000)
    expect(fired).toEqual(['after'])
    clock.advance(9000)
    expect(fired).toEqual(['after', 'before'])
  })

  it('plan anew when they are set after the wall clock was set far ahead', () => {
    const { clock, timers, fired } = start()
    timers.set('before', clock.now() + 25_000)
    clock.setWallBy(86_400_000)
    timers.set('after', clock.now() + 1000)
    clock.advance(1000)
    expect(fired).toEqual(['before', 'after'])
  })

  it('wait no longer because the wall clock was set back, whether they were set before or after', () => {
    const { clock, timers, fired } = start()
    timers.set('before', clock.now() + 10_000)
    clock.setWallBy(-86_400_000)
    timers.set('after', clock.now() + 20_000)
    expect(timers.dueOf('after')).toBe(clock.now() + 20_000)
    clock.advance(9_999)
    expect(fired).toEqual([])
    clock.advance(1)
    expect(fired).toEqual(['before'])
    clock.advance(9_999)
    expect(fired).toEqual(['before'])
    clock.advance(1)
    expect(fired).toEqual(['before', 'after'])
  })

  it('wait no longer because the wall clock was ahead when they were set', () => {
    const { clock, timers, fired } = start()
    clock.setWallBy(86_400_000)
    timers.set('soon', clock.now() + 10_000)
    clock.advance(1000)
    clock.setWallBy(-86_400_000)
    clock.advance(8_999)
    expect(fired).toEqual([])
    clock.advance(1)
    expect(fired).toEqual(['soon'])
  })

  it('do not follow the wall clock when they count monotonic time', () => {
    const clock = new FakeClock()
    const fired: string[] = []
    const timers = new Timers<string>({ clock, log: recordingLog(), time: 'monotonic' }, (key) =>
      fired.push(key),
    )
    timers.set('key', clock.monotonic() + 60_000)
    clock.setWallBy(86_400_000)
    clock.advance(59_999)
    expect(fired).toEqual([])
    clock.advance(1)
    expect(fired).toEqual(['key'])
  })

  it('log a callback that throws, and call the others', () => {
    const { clock, timers, fired, log } = start()
    timers.set('bad', clock.now() + 1, () => {
      throw new Error('broken')
    })
    timers.set('good', clock.now() + 1)
    clock.advance(1)
    expect(fired).toEqual(['good'])
    expect(log.errors).toEqual(['timer_callback_failed'])
  })

  it('let the event loop have a turn after each 500 callbacks', () => {
    const { clock, timers, fired } = start()
    for (let index = 0; index < 1_200; index += 1) timers.set(`k${index}`, clock.now() + 5)
    const counts: number[] = []
    clock.after(5, () => counts.push(fired.length))
    clock.advance(4)
    clock.advance(1)
    expect(fired).toHaveLength(1_200)
    expect(counts).toEqual([500])
  })

  it('call nobody after stop', () => {
    const { clock, timers, fired } = start()
    timers.set('key', clock.now() + 1)
    timers.stop()
    timers.set('other', clock.now() + 1)
    clock.advance(10)
    expect(fired).toEqual([])
    expect(clock.pending).toBe(0)
  })

  it('wait no longer because the wall clock was set back, of a machine that has run for long', () => {
    const { clock, timers, fired } = start(aged())
    timers.set('before', clock.now() + 10_000)
    clock.setWallBy(-5000)
    timers.set('after', clock.now() + 10_000)
    clock.advance(9_999)
    expect(fired).toEqual([])
    clock.advance(1)
    expect(fired).toEqual(['before', 'after'])
  })

  it('go with the wall clock where that is slowed down a little', () => {
    const { clock, timers, fired } = start(aged())
    timers.set('soon', clock.now() + 10_000)
    clock.setWallBy(-1000)
    timers.set('later', clock.now() + 20_000)
    clock.advance(10_999)
    expect(fired).toEqual([])
    clock.advance(1)
    expect(fired).toEqual(['soon'])
    clock.advance(9000)
    expect(fired).toEqual(['soon', 'later'])
  })

  it('call what a key was set with last, or what all are called with', () => {
    const { clock, timers, fired } = start()
    const own = (key: string) => void fired.push(`own ${key}`)
    timers.set('a', clock.now() + 1, own)
    timers.set('a', clock.now() + 2)
    timers.set('b', clock.now() + 3, own)
    timers.delete('b')
    timers.set('b', clock.now() + 4)
    timers.set('c', clock.now() + 5, own)
    clock.advance(5)
    timers.set('c', clock.now() + 5)
    clock.advance(5)
    expect(fired).toEqual(['a', 'b', 'own c', 'c'])
  })

  it('have one timer of the clock, also where callbacks set others', () => {
    const { clock, timers, fired } = start()
    timers.set('first', clock.now() + 1, () => {
      timers.set('at once', clock.now())
      timers.set('later', clock.now() + 1000)
      expect(clock.pending).toBe(0)
      expect(fired).toEqual([])
    })
    clock.advance(1)
    expect(fired).toEqual(['at once'])
    expect(clock.pending).toBe(1)
    clock.advance(1000)
    expect(fired).toEqual(['at once', 'later'])
    expect(clock.pending).toBe(0)
  })

  it('fire exactly what was set last for each key, with one timer of the clock at a time', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const world = new World()
        for (const each of steps) {
          world.take(each)
          expect(world.clock.pending).toBeLessThanOrEqual(1)
        }
        expect(world.fired.sort(byTime)).toEqual(world.wanted.sort(byTime))
      }),
    )
  })
})

type Step =
  | { do: 'set'; key: number; ms: number }
  | { do: 'delete'; key: number }
  | { do: 'pass'; ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('set' as const), key: fc.nat(9), ms: fc.nat(200_000) }),
  fc.record({ do: fc.constant('delete' as const), key: fc.nat(9) }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.nat(50_000) }),
)

type Firing = [time: number, key: number]
const byTime = (a: Firing, b: Firing) => a[0] - b[0] || a[1] - b[1]

/** Timers beside a plain map of what should fire when. */
class World {
  readonly clock = new FakeClock()
  readonly fired: Firing[] = []
  readonly wanted: Firing[] = []
  readonly #timers = new Timers<number>({ clock: this.clock, log: recordingLog() })
  readonly #due = new Map<number, number>()

  take(step: Step): void {
    if (step.do === 'set') this.#set(step.key, this.clock.now() + step.ms)
    else if (step.do === 'delete') expect(this.#timers.delete(step.key)).toBe(this.#due.delete(step.key))
    else this.#pass(step.ms)
  }

  #set(key: number, due: number): void {
    this.#due.set(key, due)
    this.#timers.set(key, due, (which) => this.fired.push([this.clock.now(), which]))
  }

  #pass(ms: number): void {
    this.clock.advance(ms)
    for (const [key, due] of this.#due) {
      if (due > this.clock.now()) continue
      this.#due.delete(key)
      this.wanted.push([due, key])
    }
  }
}
