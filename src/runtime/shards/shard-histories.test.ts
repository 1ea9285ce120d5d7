import fc from 'fast-check'
import { expect, it } from 'vitest'
import { playShards, type Trouble } from '../../../test/support/shard-play.ts'

/** More of them by hand: each takes some 50 ms of a processor. */
const HISTORIES = Number(process.env.SHARD_HISTORIES ?? 100)
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
