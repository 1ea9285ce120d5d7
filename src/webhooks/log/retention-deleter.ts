/**
 * Looks whether deliveries that refer to payloads in the log are still there. Those of endpoints that another replica
 * drives end and go without a word to this one.
 */
import { deliveryOutline } from '../../apis/delivery-outline.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { isFinal } from '../delivery/status.ts'
import { deleteDelivery } from './delete-delivery.ts'
import type { PayloadRefs } from './payload-refs.ts'
import type { DoubtfulSegment } from './segment-sweep.ts'

/** Objects that one look asks for: more where space is needed, and where there are many, so that each has its turn in ten minutes. */
const AT_LEAST = 20
const AT_MOST = 200
const LOOKS_OF_A_ROUND = 120
const AT_A_TIME = 16
/** Between two rounds; where space is needed, after one that won none. What failed stays for a week. */
const REST_MS = 60_000

/** What is known of an object by a look at it; in which version it has finished. */
type Found = 'gone' | 'stays' | { finishedIn: number }

/** Goes round: however many of them stay, the others have their turn. */
export class PayloadRefCheck {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #refs: PayloadRefs
  /** How far the round is: the segment by its version, and how many of its objects were looked at. */
  #at = { version: 0, passed: 0 }
  /** Monotonic. */
  #restsUntil = Number.NEGATIVE_INFINITY
  /** The same of those whose space is needed: the last segment that was looked at, and whether its round has won anything. */
  #room = { version: 0, won: false }
  #roomRestsUntil = Number.NEGATIVE_INFINITY

  constructor(resources: ResourceReader & ResourceWriter, refs: PayloadRefs) {
    this.#resources = resources
    this.#refs = refs
  }

  /**
   * Never rejects: what could not be looked at holds its segment until its next turn.
   * @param segments oldest first @param now monotonic, milliseconds
   * @returns whether space is needed, and another look would most likely win more
   */
  async look(segments: readonly DoubtfulSegment[], now: number): Promise<boolean> {
    const surplus = segments.filter(({ evict, name }) => evict && this.#refs.unfinishedOf(name).length > 0)
    const expired = segments.filter(({ evict }) => !evict)
    const isWanted = surplus.length > 0 && now >= this.#roomRestsUntil
    const winsMore = isWanted && (await this.#makeRoom(surplus, now))
    if (winsMore) return true
    if (expired.length > 0 && now >= this.#restsUntil) await this.#lookAround(expired, now)
    return false
  }

  /**
   * Finished deliveries go before their time, and only where all that refer to a segment have finished: nothing is won otherwise.
   * @returns whether it has won something, and there are more
   */
  async #makeRoom(segments: readonly DoubtfulSegment[], now: number): Promise<boolean> {
    let asked = 0
    let won = false
    for (const { name, version } of segments.filter((one) => one.version > this.#room.version)) {
      if (asked >= AT_MOST) return won
      const freed = await this.#free(this.#refs.unfinishedOf(name))
      asked += freed.asked
      won ||= freed.gone > 0
      this.#room = { version, won: this.#room.won || won }
    }
    if (!this.#room.won) this.#roomRestsUntil = now + REST_MS
    this.#room = { version: 0, won: false }
    return false
  }

  /** Asks for all of a segment, until one of them stays. */
  async #free(objects: readonly string[]): Promise<{ asked: number; gone: number }> {
    const ended: [object: string, version: number][] = []
    let gone = 0
    for (let asked = 0; asked < objects.length; asked += AT_A_TIME) {
      const group = objects.slice(asked, asked + AT_A_TIME)
      const found = await this.#askAll(group)
      gone += found.filter((one) => one === 'gone').length
      if (found.includes('stays')) return { asked: asked + group.length, gone }
      for (const [n, one] of found.entries())
        if (typeof one === 'object') ended.push([group[n] ?? '', one.finishedIn])
    }
    const evicted = await inGroups(ended, async (one) => await this.#evict(...one))
    return { asked: objects.length, gone: gone + evicted.filter((isGone) => isGone).length }
  }

  async #lookAround(segments: readonly DoubtfulSegment[], now: number): Promise<void> {
    const all = segments.reduce((sum, { name }) => sum + this.#refs.unfinishedOf(name).length, 0)
    const atMost = Math.min(AT_MOST, Math.max(AT_LEAST, Math.ceil(all / LOOKS_OF_A_ROUND)))
    let left = atMost
    for (const { name, version } of segments.filter((one) => one.version >= this.#at.version)) {
      if (left === 0) return
      const passed = version === this.#at.version ? this.#at.passed : 0
      const objects = this.#refs.unfinishedOf(name).slice(passed, passed + left)
      left -= objects.length
      const found = await this.#askAll(objects)
      this.#at = { version, passed: passed + found.filter((one) => one !== 'gone').length }
    }
    if (left === 0) return
    this.#at = { version: 0, passed: 0 }
    this.#restsUntil = now + REST_MS
  }

  /** What is gone refers to nothing any more. */
  async #askAll(objects: readonly string[]): Promise<Found[]> {
    return await inGroups(objects, async (object) => {
      const found = await this.#ask(object)
      if (found === 'gone') this.#refs.release(object)
      return found
    })
  }

  async #ask(object: string): Promise<Found> {
    try {
      const { data } = deliveryOutline.safeParse(await this.#resources.get(webhookDeliveries, refOf(object)))
      if (!data || !isFinal(data.status?.state)) return 'stays'
      return { finishedIn: Number(data.metadata.resourceVersion) }
    } catch (error) {
      return isApiError(error, 'NotFound') ? 'gone' : 'stays'
    }
  }

  async #evict(object: string, version: number): Promise<boolean> {
    const deletion = await deleteDelivery(this.#resources, refOf(object), version).catch(() => 'failed')
    if (deletion === 'gone') this.#refs.release(object)
    return deletion === 'gone'
  }
}

function refOf(object: string): { namespace: string; name: string } {
  const [namespace = '', name = ''] = object.split('/')
  return { namespace, name }
}

/** @returns what came of each, in their order */
async function inGroups<T, R>(all: readonly T[], act: (one: T) => Promise<R>): Promise<R[]> {
  const done: R[] = []
  for (let from = 0; from < all.length; from += AT_A_TIME)
    done.push(...(await Promise.all(all.slice(from, from + AT_A_TIME).map(act))))
  return done
}
