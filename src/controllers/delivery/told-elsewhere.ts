import type { Position } from '../../api/position.ts'
import { type Delivery, OBJECT_HOME } from './delivery.ts'
import type { Lane } from './lane.ts'
import { placeOf, type ShownDeliveries } from './shown-deliveries.ts'

/** What the log says of a delivery: an object has it, or it is pending no longer. */
type Told = 'shown' | 'ended'

export type ToldElsewhereOptions = {
  shown: ShownDeliveries
  /** It is pending no longer. */
  leave: (delivery: Delivery) => void
}

/**
 * What another replica has said of deliveries. Where this one has not let go of them (it could not renew its Lease for long,
 * and somebody else drives them by now) that counts when it has nothing of them under way.
 */
export class ToldElsewhere {
  readonly #options: ToldElsewhereOptions
  /** By place. */
  readonly #later = new Map<number, { delivery: Delivery; told: Told }>()

  constructor(options: ToldElsewhereOptions) {
    this.#options = options
  }

  /** By what the log says, the delivery at this place has come to its end. */
  endedAt(position: Position): void {
    const delivery = this.#options.shown.at(position) ?? this.at(position)
    if (delivery) this.told(delivery, 'ended')
  }

  /** One that this replica has not let go of, at this place: it is neither an entry of the log any more, nor is it shown yet. */
  at(position: Position): Delivery | undefined {
    return this.#later.get(placeOf(position))?.delivery
  }

  /** It is pending no longer. */
  forget(delivery: Delivery): void {
    const place = placeOf(delivery)
    if (this.#later.get(place)?.delivery === delivery) this.#later.delete(place)
  }

  /** This replica knows that an object has it, by what it has written itself. */
  isShown(delivery: Delivery): void {
    this.#options.shown.add(delivery)
    if (this.#later.get(placeOf(delivery))?.told === 'shown') this.forget(delivery)
  }

  told(delivery: Delivery, told: Told): void {
    const { shown, leave } = this.#options
    if (delivery.left) return
    if (this.at(delivery) && told === 'shown') return
    if (delivery.lane.driver !== 'others') this.#later.set(placeOf(delivery), { delivery, told })
    else if (told === 'ended') leave(delivery)
    else {
      delivery.home = OBJECT_HOME
      shown.add(delivery)
    }
  }

  /** Nothing of the lane is under way here. */
  released(lane: Lane): void {
    for (const [place, { delivery, told }] of [...this.#later]) {
      if (delivery.lane !== lane) continue
      this.#later.delete(place)
      this.told(delivery, told)
    }
  }
}
