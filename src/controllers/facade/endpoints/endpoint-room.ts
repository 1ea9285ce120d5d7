/** How many endpoints an organization may have more: those that are being made count as well. */
import { RefusedError } from '../../../ports/refused-error.ts'

export type EndpointRoomOptions = {
  directory: { inNamespace(namespace: string): readonly unknown[] }
  /** Endpoints that an organization may have. */
  maxEndpoints: number
}

/** For one endpoint that is to be made. Either call a second time changes nothing. */
export type EndpointPlace = {
  /** @throws RefusedError too_many_endpoints */
  take(): void
  /** It is made, and counts by itself, or is given up. */
  giveBack(): void
}

export class EndpointRoom {
  readonly #options: EndpointRoomOptions
  /** Endpoints that are being made, by organization. */
  readonly #underWay = new Map<string, number>()

  constructor(options: EndpointRoomOptions) {
    this.#options = options
  }

  /** For one more; nothing is taken yet. */
  place(organization: string): EndpointPlace {
    let isTaken = false
    return {
      take: () => {
        if (isTaken) return
        this.#refuseTooMany(organization)
        this.#count(organization, 1)
        isTaken = true
      },
      giveBack: () => {
        if (isTaken) this.#count(organization, -1)
        isTaken = false
      },
    }
  }

  #refuseTooMany(organization: string): void {
    const { directory, maxEndpoints } = this.#options
    const held = directory.inNamespace(organization).length + (this.#underWay.get(organization) ?? 0)
    if (held < maxEndpoints) return
    const detail = `The organization has ${held} endpoints, and may have ${maxEndpoints}.`
    throw new RefusedError('too_many_endpoints', { detail })
  }

  #count(organization: string, by: number): void {
    const count = (this.#underWay.get(organization) ?? 0) + by
    if (count === 0) this.#underWay.delete(organization)
    else this.#underWay.set(organization, count)
  }
}
