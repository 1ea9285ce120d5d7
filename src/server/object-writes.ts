/** How many objects of a kind an organization may have more: those that are being made count as well. */
import type { RefusedError } from './http/refused-error.ts'

export type ObjectQuotaOptions = {
  /** Objects that it has. */
  held(organization: string): number
  /** Objects that it may have. */
  most: number
  refusal(held: number): RefusedError
}

/** For one object that is to be made. Either call a second time changes nothing. */
export type QuotaTicket = {
  /** @throws the refusal */
  take(): void
  /** It is made, and counts by itself, or is given up. */
  giveBack(): void
}

export class ObjectQuota {
  readonly #options: ObjectQuotaOptions
  /** Objects that are being made, by organization. */
  readonly #underWay = new Map<string, number>()

  constructor(options: ObjectQuotaOptions) {
    this.#options = options
  }

  /** For one more; nothing is taken yet. */
  ticketFor(organization: string): QuotaTicket {
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
    const { most, refusal } = this.#options
    const held = this.#options.held(organization) + (this.#underWay.get(organization) ?? 0)
    if (held >= most) throw refusal(held)
  }

  #count(organization: string, by: number): void {
    const count = (this.#underWay.get(organization) ?? 0) + by
    if (count === 0) this.#underWay.delete(organization)
    else this.#underWay.set(organization, count)
  }
}
