import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { playShards, type Trouble } from '../../test/support/shard-play.ts'
import { SHARDS, TIMES } from '../../test/support/shard-world.ts'

/** More of them by hand: each takes some 50 ms of a processor. */
const HISTORIES = Number(process.env.SHARD_HISTORIES ?? 100)
/** Rounds until all have seen it, said so, and heard that of each other; clocks go at different rates. */
const ROUNDS_MS = 4 * TIMES.renewEveryMs
/** Of shards whose owner was lost: its lease has to end, and what it had begun. */
const LOST_MS = TIMES.leaseMs + TIMES.drainMs + ROUNDS_MS
/** Of shards that are handed over: what was begun has to end. */
const HANDED_OVER_MS = TIMES.drainMs
/** Whoever comes back under its name is let in when its loss is over, and is handed what the others have just taken over. */
const SETTLED_MS = LOST_MS + HANDED_OVER_MS
const LIMIT_MS = 60_000 + HISTORIES * 1000

type Kind = Trouble['kind']

/** Milliseconds: at most so many between one and the next, and for so long. */
type Spread = { mostMs: number; longMs: number; atLeast?: number }

function troublesOf(kinds: readonly Kind[], { mostMs, longMs, atLeast = 0 }: Spread) {
  const trouble = fc.record({
    afterMs: fc.integer({ min: 0, max: mostMs }),
    kind: fc.constantFrom(...kinds),
    ms: fc.integer({ min: 100, max: longMs }),
  })
  return fc.array(trouble, { minLength: atLeast, maxLength: 12 })
}

async function holds(troubles: fc.Arbitrary<Trouble[]>): Promise<void> {
  const seeds = fc.integer({ min: 1, max: 2 ** 31 - 1 })
  await fc.assert(
    fc.asyncProperty(seeds, troubles, fc.boolean(), async (seed, troubles, areNamesOwn) => {
      const found = await playShards({ seed, troubles, replicas: 3, areNamesOwn })
      expect(found.wrong).toEqual([])
      expect(found.unowned).toEqual([])
      expect(found.settledAfterMs).toBeLessThanOrEqual(SETTLED_MS)
      expect(found.attempts).toBeGreaterThan(0)
    }),
    { numRuns: HISTORIES },
  )
}

it(
  'never lets two work on one shard, loses nothing, and leaves no shard to nobody, whatever happens',
  async () => {
    const all: Kind[] = [
      'kill',
      'restart',
      'twin',
      'stop',
      'leave',
      'join',
      'cut',
      'outage',
      'losses',
      'clock',
    ]
    await holds(troublesOf([...all, 'removal'], { mostMs: 30_000, longMs: 60_000 }))
  },
  LIMIT_MS,
)

it(
  'does so where replicas are cut off one by one, hear late or are heard late, while others come',
  async () => {
    await holds(
      troublesOf(['cut', 'cut', 'cut', 'stop', 'join', 'restart'], {
        mostMs: 12_000,
        longMs: 80_000,
        atLeast: 4,
      }),
    )
  },
  LIMIT_MS,
)

describe('a shard is without an owner for a bounded time, and only what a lost owner had begun is repeated,', () => {
  const AT_ONCE: Kind[] = ['leave', 'join', 'twin', 'clock', 'removal']
  const LOST: Kind[] = ['kill', 'restart', 'stop']

  it.each([
    { what: 'handed over', kinds: AT_ONCE, mostMs: HANDED_OVER_MS, repeated: 0 },
    { what: 'lost', kinds: LOST, mostMs: LOST_MS, repeated: SHARDS },
  ])(
    'where it is $what',
    async ({ kinds, mostMs, repeated }) => {
      const seeds = fc.integer({ min: 1, max: 2 ** 31 - 1 })
      const troubles = troublesOf(kinds, { mostMs: 5000, longMs: 40_000, atLeast: 1 })
      await fc.assert(
        fc.asyncProperty(seeds, troubles, fc.boolean(), async (seed, [trouble], areNamesOwn) => {
          const plan = { seed, troubles: trouble ? [trouble] : [], replicas: 3, areNamesOwn, isCalm: true }
          const found = await playShards(plan)
          expect(found.wrong).toEqual([])
          expect(found.unownedMs).toBeLessThanOrEqual(mostMs)
          expect(found.repeated).toBeLessThanOrEqual(repeated)
        }),
        { numRuns: HISTORIES },
      )
    },
    LIMIT_MS,
  )
})
