import { isApiError } from '../kube/client.ts'
import { RefusedError } from './http/problems.ts'

/** Another writer may come between the look and the write so often. */
const MAX_TRIES = 10

/** Somebody else was quicker, and what was to be written is another or has gone: what was decided is decided again. */
export async function retryOnConflict<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work()
    } catch (error) {
      if (!isApiError(error, 'Conflict', 'AlreadyExists', 'NotFound')) throw error
      if (tries === MAX_TRIES) throw new RefusedError('overloaded', { retryAfter: 1, cause: error })
    }
  }
}

/** How many objects of a kind an organization may have more: those that are being made count as well. */

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
