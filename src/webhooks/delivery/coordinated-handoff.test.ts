/**
 * Replicas that keep their shards among themselves, by their Leases, and drive deliveries on one store and one log, while they
 * are killed, stopped, cut off, told to end and joined by others, and endpoints change. The same promises must hold.
 */

import { it } from 'vitest'
import type { CoordinatedReplica } from '../../../test/support/coordinated-replica.ts'
import { CoordinatedWorld } from '../../../test/support/coordinated-world.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { holdsInAll, plansOf } from '../../../test/support/handoff-plans.ts'
import { HandoffStory } from '../../../test/support/handoff-story.ts'

/** More of them by hand. */
const HISTORIES = Number(process.env.KEPT_HISTORIES ?? 20)
const LIMIT_MS = 60_000 + HISTORIES * 4000

const KINDS = {
  accept: 6,
  kill: 1,
  restart: 1,
  leave: 1,
  stop: 1,
  cut: 1,
  lose: 1,
  join: 1,
  disable: 1,
  enable: 1,
  delete: 1,
}
const MS = fc.oneof(fc.nat({ max: 300 }), fc.nat({ max: 9000 }), fc.nat({ max: 60_000 }))

it(
  'every accepted delivery ends once, in order where asked, no shard has two owners, and within a minute of the last trouble each has one',
  async () => {
    await holdsInAll(
      plansOf(KINDS, MS),
      (one) =>
        new HandoffStory<CoordinatedReplica>(
          one,
          (seed, onReplica) => new CoordinatedWorld(seed, onReplica),
        ).play(),
      {
        histories: HISTORIES,
        seed: process.env.KEPT_SEED,
        asFound: process.env.KEPT_AS_FOUND,
      },
    )
  },
  LIMIT_MS,
)
