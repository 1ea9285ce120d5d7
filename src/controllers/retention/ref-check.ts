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

/** Objects that are looked at in one go, and at a time. */
const AT_MOST = 200
const AT_A_TIME = 16

type Wanted = { object: string; evict: boolean; at: number }

/** Goes round: however many of them stay, the others have their turn. */
export class RefCheck {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #refs: PayloadRefs
  /** Where the next look begins: the segment, and how many of its objects were looked at. */
  #segment = 0
  #passed = 0

  constructor(resources: ResourceReader & ResourceWriter, refs: PayloadRefs) {
    this.#resources = resources
    this.#refs = refs
  }

  /** Never rejects: what could not be looked at holds its segment until its next turn. @param segments oldest first */
  async look(segments: readonly DoubtfulSegment[]): Promise<void> {
    const wanted = this.#next(segments)
    for (let from = 0; from < wanted.length; from += AT_A_TIME)
      await Promise.all(wanted.slice(from, from + AT_A_TIME).map((one) => this.#lookAt(one)))
  }

  #next(segments: readonly DoubtfulSegment[]): Wanted[] {
    const wanted: Wanted[] = []
    if (this.#segment >= segments.length) this.#goTo(0)
    for (let passed = 0; passed < segments.length && wanted.length < AT_MOST; passed += 1) {
      const { name = '', evict = false } = segments[this.#segment] ?? {}
      const left = this.#refs.unfinishedOf(name).slice(this.#passed)
      const part = left.slice(0, AT_MOST - wanted.length)
      wanted.push(...part.map((object) => ({ object, evict, at: this.#segment })))
      if (part.length < left.length) this.#passed += part.length
      else this.#goTo((this.#segment + 1) % segments.length)
    }
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
