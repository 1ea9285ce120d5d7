import { expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { playServers } from '../../test/support/server-play.ts'

/** More of them by hand. */
const HISTORIES = Number(process.env.REST_HISTORIES ?? 40)
const LIMIT_MS = 60_000 + HISTORIES * 1000

const trouble = fc.record({
  afterMs: fc.integer({ min: 0, max: 20_000 }),
  kind: fc.constantFrom(
    ...(['kill', 'restart', 'stop', 'leave', 'join', 'outage', 'losses', 'clock', 'lag', 'mute'] as const),
  ),
  ms: fc.integer({ min: 100, max: 40_000 }),
})

it(
  'whatever lags, stops, dies or comes back, what is published after a change was answered goes by it',
  async () => {
    const plan = fc.record({
      seed: fc.nat(),
      servers: fc.integer({ min: 1, max: 4 }),
      troubles: fc.array(trouble, { maxLength: 8 }),
    })
    let answered = 0
    await fc.assert(
      fc.asyncProperty(plan, async (given) => {
        const played = await playServers(given)
        answered += played.answered
        expect(played.wrong).toEqual([])
        // Everything has come right: all publish, and a change is answered soon; the dead have left nothing.
        const { living, publishing, isAnswered, records } = played
        expect({ publishing, isAnswered, records }).toEqual({
          publishing: living,
          isAnswered: true,
          records: living,
        })
      }),
      { numRuns: HISTORIES },
    )
    expect(answered).toBeGreaterThan(HISTORIES)
  },
  LIMIT_MS,
)
