/**
 * Replicas that keep their shards among themselves, by their Leases, and drive deliveries on one store and one log, while they
 * are killed, stopped, cut off, told to end and joined by others, and endpoints change. The same promises must hold.
 */

import { expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { ENDPOINTS, HandOverStory, type Step } from '../../../test/support/hand-over-story.ts'
import type { KeptReplica } from '../../../test/support/kept-replica.ts'
import { KeptWorld } from '../../../test/support/kept-world.ts'

/** More of them by hand. */
const HISTORIES = Number(process.env.KEPT_HISTORIES ?? 20)
const LIMIT_MS = 60_000 + HISTORIES * 4000

const KINDS: readonly Step['kind'][] = ['accept', 'accept', 'accept', 'accept', 'accept', 'accept']
const TROUBLES: readonly Step['kind'][] = [
  'kill',
  'restart',
  'leave',
  'stop',
  'cut',
  'lose',
  'join',
  'disable',
  'enable',
  'delete',
]

const step = fc.record({
  kind: fc.constantFrom(...KINDS, ...TROUBLES),
  endpoints: fc.integer({ min: 1, max: 2 ** ENDPOINTS.length - 1 }),
  who: fc.nat({ max: 11 }),
  ms: fc.oneof(fc.nat({ max: 300 }), fc.nat({ max: 9000 }), fc.nat({ max: 60_000 })),
})

const plan = fc.record({
  seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  replicas: fc.constantFrom(2, 3),
  steps: fc.array(step, { minLength: 1, maxLength: 25 }),
  refusals: fc.array(fc.constantFrom(0, 0, 0, 0, 1, 1, 2, 9), { minLength: 1, maxLength: 6 }),
})

it(
  'every accepted delivery ends once, in order where asked, each shard has one owner, and within a minute of the last trouble all have',
  async () => {
    await fc.assert(
      fc.asyncProperty(plan, async (one) => {
        const story = new HandOverStory<KeptReplica>(one, (seed, onReplica) => new KeptWorld(seed, onReplica))
        expect(await story.play()).toEqual([])
      }),
      {
        numRuns: HISTORIES,
        seed: Number(process.env.KEPT_SEED ?? 1),
        endOnFailure: process.env.KEPT_AS_FOUND === 'yes',
      },
    )
  },
  LIMIT_MS,
)
