/** Deletes in small groups what the indexes say is to go, segments and deliveries in turns. */

import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import { deleteDelivery } from './delete-delivery.ts'
import type { Finished, FinishedIndex } from './finished-deliveries.ts'
import type { DeletionBatch } from './pace.ts'
import type { LogSweep } from './segment-sweep.ts'

export type DeleterOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  clock: Clock
  log: Logger
  lowWater: () => number
  finished: FinishedIndex
  sweep: LogSweep
  /** An object is gone. @param object `<namespace>/<name>` */
  onGone: (object: string) => void
  /** Writes down elsewhere what a segment says of Idempotency-Keys that still stand. */
  keepKeys: (segment: string) => Promise<void>
}

/** What could not be deleted is looked at again after so long. */
const AGAIN_AFTER_MS = 60_000

/** Milliseconds that the store asks to wait, if it does. */
type Wait = number | undefined

export class Deleter {
  readonly #options: DeleterOptions
  /** What could not be deleted, and the monotonic time from which on it is tried again. */
  readonly #later = new Map<Finished, number>()
  #deleted = 0
  #failed = 0
  #lastError: unknown

  constructor(options: DeleterOptions) {
    this.#options = options
  }

  /** Deletes and attempts that failed, since the start. */
  get counts(): { deleted: number; failed: number } {
    return { deleted: this.#deleted, failed: this.#failed }
  }

  /** Resolves when all of a group are answered. @param now milliseconds since 1970 @param size of the group at most */
  async deleteGroup(now: number, size: number): Promise<Omit<DeletionBatch, 'tookMs'>> {
    const { sweep } = this.#options
    const deletes: Promise<Wait>[] = []
    sweep.refill(now)
    while (deletes.length < size) {
      const next =
        deletes.length % 2 === 0
          ? (this.#nextSegment(now) ?? this.#nextDelivery(now))
          : (this.#nextDelivery(now) ?? this.#nextSegment(now))
      if (!next) break
      deletes.push(next)
    }
    const waits = (await Promise.all(deletes)).filter((wait) => wait !== undefined)
    return {
      deletes: deletes.length,
      full: deletes.length === size || sweep.hasMore,
      waitMs: waits.length > 0 ? Math.max(...waits) : undefined,
    }
  }

  /** Those to be looked at again by now. */
  drainRetries(): Finished[] {
    const due: Finished[] = []
    for (const [finished, at] of this.#later) {
      if (at > this.#options.clock.monotonic()) break
      this.#later.delete(finished)
      due.push(finished)
    }
    return due
  }

  /** What failed since the last call, once. */
  takeError(): unknown {
    const error = this.#lastError
    this.#lastError = undefined
    return error
  }

  #nextSegment(now: number): Promise<Wait> | undefined {
    const going = this.#options.sweep.next()
    if (!going) return undefined
    const { namespace, resources, keepKeys } = this.#options
    const hasKeys = going.keysUntil !== undefined && going.keysUntil > now
    const act = async () => {
      if (hasKeys) await keepKeys(going.name)
      try {
        await resources.delete(going.type, { namespace, name: going.name })
      } catch (error) {
        if (!isApiError(error, 'NotFound')) throw error
      }
      going.deleted()
    }
    // Where nothing can be written, segments without keys still make room.
    return this.#attempt(act, hasKeys ? () => undefined : going.failed)
  }

  #nextDelivery(now: number): Promise<Wait> | undefined {
    const { clock, log, resources, lowWater, onGone } = this.#options
    const finished = this.#options.finished.take(lowWater(), now)
    if (!finished) return undefined
    const ref = { namespace: finished.endpoint.namespace, name: finished.name }
    const act = async () => {
      if ((await deleteDelivery(resources, ref, finished.objectVersion)) === 'gone') {
        onGone(`${ref.namespace}/${ref.name}`)
        return
      }
      finished.left = true
      log.warn('A delivery that was taken for finished is not; it stays', ref)
    }
    return this.#attempt(act, () => this.#later.set(finished, clock.monotonic() + AGAIN_AFTER_MS))
  }

  async #attempt(act: () => Promise<void>, onFailure: () => void): Promise<Wait> {
    try {
      await act()
      this.#deleted += 1
      return undefined
    } catch (error) {
      onFailure()
      this.#failed += 1
      this.#lastError = error
      return isApiError(error, 'Unavailable', 'TooManyRequests') ? (error.retryAfterMs ?? 0) : undefined
    }
  }
}
