import type { Position } from '../../apis/position.ts'
import { type Delivery, IN_OBJECT } from './delivery.ts'
import type { EndpointQueue } from './queue.ts'
import { type ObjectBackedDeliveries, offsetKey } from './shown-deliveries.ts'

/** What the log says of a delivery: an object has it, or it is pending no longer. */
type RemoteOutcome = 'shown' | 'ended'

export type RemoteOutcomesOptions = {
  shown: ObjectBackedDeliveries
  /** It is pending no longer. */
  forget: (delivery: Delivery) => void
}

/**
 * What another replica has said of deliveries. Where this one has not let go of them (it could not renew its Lease for long,
 * and somebody else drives them by now) that counts when it has nothing of them under way.
 */
export class RemoteOutcomes {
  readonly #options: RemoteOutcomesOptions
  /** By place. */
  readonly #later = new Map<number, { delivery: Delivery; apply: RemoteOutcome }>()

  constructor(options: RemoteOutcomesOptions) {
    this.#options = options
  }

  /** By what the log says, the delivery at this place has come to its end. */
  applyEnd(position: Position): void {
    const delivery = this.#options.shown.at(position) ?? this.deferredAt(position)
    if (delivery) this.told(delivery, 'ended')
  }

  /** One that this replica has not let go of, at this place: it is neither an entry of the log any more, nor is it shown yet. */
  deferredAt(position: Position): Delivery | undefined {
    return this.#later.get(offsetKey(position))?.delivery
  }

  /** It is pending no longer. */
  forget(delivery: Delivery): void {
    const place = offsetKey(delivery)
    if (this.#later.get(place)?.delivery === delivery) this.#later.delete(place)
  }

  /** This replica knows that an object has it, by what it has written itself. */
  markPromoted(delivery: Delivery): void {
    this.#options.shown.add(delivery)
    if (this.#later.get(offsetKey(delivery))?.apply === 'shown') this.forget(delivery)
  }

  told(delivery: Delivery, told: RemoteOutcome): void {
    const { shown, forget } = this.#options
    if (delivery.left) return
    if (this.deferredAt(delivery) && told === 'shown') return
    if (delivery.queue.driver !== 'others') this.#later.set(offsetKey(delivery), { delivery, apply: told })
    else if (told === 'ended') forget(delivery)
    else {
      delivery.storage = IN_OBJECT
      shown.add(delivery)
    }
  }

  /** Nothing of the lane is under way here. */
  applyDeferred(lane: EndpointQueue): void {
    for (const [place, { delivery, apply }] of [...this.#later]) {
      if (delivery.queue !== lane) continue
      this.#later.delete(place)
      this.told(delivery, apply)
    }
  }
}
