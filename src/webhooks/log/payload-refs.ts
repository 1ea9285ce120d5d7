/**
 * Which delivery objects refer to a payload in the log: a segment with a payload that may still be sent, or
 * shown, must stay. Only payloads over 16 KiB are referred to; smaller ones are in the object.
 */

import type { Finished } from './finished-deliveries.ts'
import type { Holders } from './retention-plan.ts'

export class PayloadRefs {
  /**
   * By segment the objects, as `<namespace>/<name>`, with what is known of those that have finished. What this process has left is in
   * doubt: another one that has taken its shard deletes it without a word to this one.
   */
  readonly #holders = new Map<string, Map<string, Finished | undefined>>()
  readonly #segments = new Map<string, string>()

  /** Objects that refer to a segment. */
  get size(): number {
    return this.#segments.size
  }

  /** Telling the same again changes nothing. @param object `<namespace>/<name>` */
  hold(object: string, segment: string): void {
    if (this.#segments.has(object)) return
    this.#segments.set(object, segment)
    const holders = this.#holders.get(segment)
    if (holders) holders.set(object, undefined)
    else this.#holders.set(segment, new Map([[object, undefined]]))
  }

  /** The delivery has finished; its object goes on referring. */
  finished(object: string, finished: Finished): void {
    const segment = this.#segments.get(object)
    if (segment !== undefined) this.#holders.get(segment)?.set(object, finished)
  }

  /** The object is gone. */
  release(object: string): void {
    const segment = this.#segments.get(object)
    if (segment === undefined) return
    this.#segments.delete(object)
    const holders = this.#holders.get(segment)
    holders?.delete(object)
    if (holders?.size === 0) this.#holders.delete(segment)
  }

  /** The segment is gone, and with it what was referred to. */
  forget(segment: string): void {
    for (const object of this.#holders.get(segment)?.keys() ?? []) this.#segments.delete(object)
    this.#holders.delete(segment)
  }

  holders(segment: string): Holders {
    const holders = this.#holders.get(segment)
    if (!holders) return 'none'
    let found: Holders = 'succeeded'
    for (const finished of holders.values()) {
      if (!isKnown(finished)) return 'unfinished'
      if (!finished.succeeded) found = 'finished'
    }
    return found
  }

  /** Those of which it is not known that they have finished. */
  unfinishedOf(segment: string): string[] {
    const holders = [...(this.#holders.get(segment) ?? [])]
    return holders.flatMap(([object, finished]) => (isKnown(finished) ? [] : [object]))
  }

  /** The finished ones of those that refer to it. */
  finishedOf(segment: string): Finished[] {
    const holders = this.#holders.get(segment)?.values() ?? []
    return [...holders].filter(isKnown)
  }
}

function isKnown(finished: Finished | undefined): finished is Finished {
  return finished !== undefined && !finished.left
}
