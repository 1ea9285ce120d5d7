/**
 * Looks whether deliveries that refer to payloads in the log are still there. Those of endpoints that another replica
 * drives end and go without a word to this one.
 */
import { deliveryOutline } from '../../api/delivery-outline.ts'
import { webhookDeliveries } from '../../api/webhook-delivery.ts'
import { isFinal } from '../../domain/delivery.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../ports/kubernetes.ts'
import { deleteDelivery } from './delete-delivery.ts'
import type { DoubtfulSegment } from './log-sweep.ts'
import type { PayloadRefs } from './payload-refs.ts'

/** Objects that are looked at in one go where space is needed, and otherwise: what stays for a week is not asked for all the time. */
const AT_MOST_FOR_ROOM = 200
const AT_MOST = 20
const AT_A_TIME = 16
/** Between two rounds, unless space is needed. */
const REST_MS = 60_000

type Wanted = { object: string; evict: boolean; at: number }

/** Goes round: however many of them stay, the others have their turn. */
export class RefCheck {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #refs: PayloadRefs
  /** Where the next look begins: the segment, and how many of its objects were looked at. */
  #segment = 0
  #passed = 0
  /** Monotonic. */
  #restsUntil = Number.NEGATIVE_INFINITY

  constructor(resources: ResourceReader & ResourceWriter, refs: PayloadRefs) {
    this.#resources = resources
    this.#refs = refs
  }

  /**
   * Never rejects: what could not be looked at holds its segment until its next turn.
   * @param segments oldest first @param now monotonic, milliseconds
   */
  async look(segments: readonly DoubtfulSegment[], now: number): Promise<void> {
    const needsRoom = segments.some(({ evict }) => evict)
    if (!needsRoom && now < this.#restsUntil) return
    const wanted = this.#next(segments, needsRoom ? AT_MOST_FOR_ROOM : AT_MOST)
    if (this.#segment === 0 && this.#passed === 0) this.#restsUntil = now + REST_MS
    for (let from = 0; from < wanted.length; from += AT_A_TIME)
      await Promise.all(wanted.slice(from, from + AT_A_TIME).map((one) => this.#lookAt(one)))
  }

  /** Those that are next in this round. */
  #next(segments: readonly DoubtfulSegment[], atMost: number): Wanted[] {
    const wanted: Wanted[] = []
    while (wanted.length < atMost) {
      const segment = segments[this.#segment]
      if (!segment) break
      const left = this.#refs.unfinishedOf(segment.name).slice(this.#passed)
      const part = left.slice(0, atMost - wanted.length)
      wanted.push(...part.map((object) => ({ object, evict: segment.evict, at: this.#segment })))
      if (part.length < left.length) this.#passed += part.length
      else this.#goTo(this.#segment + 1)
    }
    if (this.#segment >= segments.length) this.#goTo(0)
    return wanted
  }

  #goTo(segment: number): void {
    this.#segment = segment
    this.#passed = 0
  }

  async #lookAt({ object, evict, at }: Wanted): Promise<void> {
    if (!(await this.#isGone(object, evict))) return
    this.#refs.release(object)
    if (at === this.#segment && this.#passed > 0) this.#passed -= 1
  }

  async #isGone(object: string, evict: boolean): Promise<boolean> {
    const [namespace = '', name = ''] = object.split('/')
    const ref = { namespace, name }
    try {
      const raw = await this.#resources.get(webhookDeliveries, ref)
      const { status, metadata } = deliveryOutline.safeParse(raw).data ?? {}
      if (!evict || !isFinal(status?.state)) return false
      return (await deleteDelivery(this.#resources, ref, Number(metadata?.resourceVersion))) === 'gone'
    } catch (error) {
      return isApiError(error, 'NotFound')
    }
  }
}
