/**
 * Entries of the log that are to get an object though nothing has come of them yet: a few at a time, so that a
 * backlog of thousands takes neither the API server nor the room for outcomes from the endpoints that get along.
 */

import { withoutOwnership } from '../../ha/ownership.ts'
import { withOwnership } from '../../ha/shards-ownership.ts'
import { Fifo } from '../../lib/semaphore.ts'
import type { EngineContext } from './context.ts'
import type { Delivery, InLog } from './delivery.ts'
import { hasLostShard } from './persist.ts'
import { promoteToObject } from './promotion.ts'

/** Objects that are being made. */
const AT_A_TIME = 16
/** These, and those whose object is there and whose entry is still to be closed: a write of so many records waits for no more. */
const MAX_OPEN = 64
/** Between tries of an object that was refused. */
const FIRST_RETRY_MS = 2000
const LONGEST_RETRY_MS = 60_000

type Retry = { dueAt: number; waitMs: number }

export class PromotionQueue {
  readonly #ctx: EngineContext
  readonly #queue = new Fifo<Delivery>()
  readonly #queued = new Set<Delivery>()
  /** Those that were refused, while they stay in the log. */
  readonly #retries = new WeakMap<InLog, Retry>()
  readonly #aside = withoutOwnership()
  #making = 0
  #open = 0

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Asked for again and again while it stays in the log. */
  add(delivery: Delivery, home: InLog): void {
    const retry = this.#retries.get(home)
    if (this.#queued.has(delivery) || (retry && retry.dueAt > this.#ctx.clock.monotonic())) return
    this.#queued.add(delivery)
    this.#queue.push(delivery)
    this.#pump()
  }

  #pump(): void {
    while (this.#making < AT_A_TIME && this.#open < MAX_OPEN && !this.#ctx.giveUp.aborted) {
      const delivery = this.#queue.shift()
      if (!delivery) return
      this.#making += 1
      this.#open += 1
      const made = once(() => {
        this.#making -= 1
        // What comes next is not done for the shard of this one.
        this.#aside(() => this.#pump())
      })
      const { shards } = this.#ctx
      const moved = withOwnership(shards, delivery.queue.shard, () => this.#move(delivery, made)).finally(
        () => {
          this.#queued.delete(delivery)
          this.#open -= 1
          made()
          this.#pump()
        },
      )
      this.#ctx.background(moved, delivery.queue)
    }
  }

  /** @param made told when its object is there: another one may be made while the record of that is written */
  async #move(delivery: Delivery, made: () => void): Promise<void> {
    const { storage, queue } = delivery
    // An outcome that has come meanwhile brings the object itself.
    if (storage.kind !== 'log' || storage.status || queue.closed || !this.#ctx.shards.owns(queue.shard))
      return
    try {
      await promoteToObject(this.#ctx, delivery, storage, made)
    } catch (error) {
      if (!this.#ctx.giveUp.aborted && !hasLostShard(this.#ctx))
        this.#ctx.log.error('A delivery was not given its object', { error })
    }
    if (delivery.storage === storage) this.#refused(storage)
  }

  #refused(home: InLog): void {
    const waitMs = Math.min(LONGEST_RETRY_MS, (this.#retries.get(home)?.waitMs ?? FIRST_RETRY_MS / 2) * 2)
    this.#retries.set(home, { dueAt: this.#ctx.clock.monotonic() + waitMs, waitMs })
  }
}

function once(run: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    run()
  }
}
