/**
 * Shards that move between replicas on one store at any moment, while watches lag, receivers refuse, replicas die or stand
 * still, and endpoints change: the promises must hold whatever comes together.
 */

import { expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { holdsInAll, plansOf } from '../../../test/support/handoff-plans.ts'
import { HandoffStory, type Plan, type Step } from '../../../test/support/handoff-story.ts'
import { HandoffWorld } from '../../../test/support/handoff-world.ts'
import type { ReplicaBed } from '../../../test/support/replica-bed.ts'

/** More of them by hand. */
const HISTORIES = Number(process.env.HAND_OVER_HISTORIES ?? 60)
const LIMIT_MS = 60_000 + HISTORIES * 1000

/** More of those that stand still, by hand. */
const STOPS = process.env.HAND_OVER_STOPS === 'yes' ? 2 : 1
const KINDS = {
  accept: 4,
  move: 4,
  kill: 1,
  stop: STOPS,
  cut: 1,
  lose: 1,
  join: 1,
  disable: 1,
  enable: 1,
  delete: 1,
}
const MS = fc.oneof(fc.nat({ max: 30 }), fc.nat({ max: 3000 }), fc.nat({ max: 200_000 }))

const storyOf = (one: Plan) =>
  new HandoffStory<ReplicaBed>(one, (seed, onReplica) => new HandoffWorld(seed, onReplica))

it(
  'every accepted delivery ends once, in order where asked, and every replica knows it, however shards change hands',
  async () => {
    await holdsInAll(plansOf(KINDS, MS), (one) => storyOf(one).play(), {
      histories: HISTORIES,
      seed: process.env.HAND_OVER_SEED,
      asFound: process.env.HAND_OVER_AS_FOUND,
    })
  },
  LIMIT_MS,
)

/** The one that stood still goes on with what it was about to do, and the other one has ended the entry without an object. */
it('no object is left unfinished by a replica that stood still while another took over', async () => {
  const steps: Step[] = [
    { kind: 'move', endpoints: 41, who: 2, ms: 289 },
    { kind: 'accept', endpoints: 59, who: 7, ms: 2 },
    { kind: 'move', endpoints: 48, who: 5, ms: 27 },
    { kind: 'stop', endpoints: 16, who: 0, ms: 44_429 },
    { kind: 'accept', endpoints: 5, who: 9, ms: 1582 },
    { kind: 'move', endpoints: 50, who: 1, ms: 0 },
    { kind: 'move', endpoints: 13, who: 7, ms: 3 },
    { kind: 'stop', endpoints: 10, who: 7, ms: 2997 },
    { kind: 'accept', endpoints: 61, who: 0, ms: 16 },
  ]
  const story = storyOf({
    seed: 270_453_263,
    replicas: 2,
    steps,
    refusals: [1, 1, 0, 9],
  })
  expect(await story.play()).toEqual([])
})

/** The list that it had asked for shows what the other one has made, and its own watch tells of that at the same moment. */
it('what a replica finds that stood still while it took over, and another went on, is one delivery', async () => {
  const steps: Step[] = [
    { kind: 'move', endpoints: 27, who: 1, ms: 20 },
    { kind: 'move', endpoints: 1, who: 0, ms: 13 },
    { kind: 'stop', endpoints: 31, who: 1, ms: 0 },
    { kind: 'accept', endpoints: 1, who: 0, ms: 0 },
    { kind: 'accept', endpoints: 1, who: 0, ms: 0 },
    { kind: 'move', endpoints: 1, who: 0, ms: 0 },
  ]
  const story = storyOf({ seed: 286_899_025, replicas: 2, steps, refusals: [2] })
  expect(await story.play()).toEqual([])
})

/** An attempt that took long has its object under way, whose making is cut off; what it came to is stored, and then the object appears. */
it('an object that is made long after its delivery has succeeded shows that', async () => {
  const steps: Step[] = [
    { kind: 'accept', endpoints: 1, who: 0, ms: 0 },
    { kind: 'move', endpoints: 1, who: 0, ms: 5 },
    { kind: 'move', endpoints: 26, who: 7, ms: 2788 },
    { kind: 'accept', endpoints: 14, who: 2, ms: 22 },
    { kind: 'cut', endpoints: 28, who: 9, ms: 0 },
  ]
  const story = storyOf({ seed: 567_389_098, replicas: 2, steps, refusals: [0] })
  expect(await story.play()).toEqual([])
})

/** The replica takes its own shards back after its lease, and the call that makes an object has stood on its way since before that. */
it('a shard is not handed over in order while a call of a time before may take effect', async () => {
  const steps: Step[] = [
    { kind: 'join', endpoints: 58, who: 11, ms: 1732 },
    { kind: 'accept', endpoints: 3, who: 11, ms: 2928 },
    { kind: 'move', endpoints: 30, who: 10, ms: 16 },
    { kind: 'cut', endpoints: 34, who: 1, ms: 1697 },
    { kind: 'lose', endpoints: 16, who: 7, ms: 4277 },
    { kind: 'accept', endpoints: 7, who: 0, ms: 108 },
    { kind: 'kill', endpoints: 47, who: 5, ms: 353 },
    { kind: 'move', endpoints: 13, who: 4, ms: 1231 },
    { kind: 'move', endpoints: 8, who: 1, ms: 291 },
    { kind: 'move', endpoints: 63, who: 7, ms: 122_886 },
    { kind: 'accept', endpoints: 18, who: 4, ms: 23 },
    { kind: 'cut', endpoints: 47, who: 11, ms: 28 },
  ]
  const story = storyOf({ seed: 1_816_532_183, replicas: 3, steps, refusals: [0] })
  expect(await story.play()).toEqual([])
})
