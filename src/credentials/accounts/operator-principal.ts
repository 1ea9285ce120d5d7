/** Who a trust policy has to name: the operator's own identity, as the settings say or as STS does. */

import type { Clock } from '../../lib/ports-clock.ts'
import { principalOf } from '../aws/role-arn.ts'
import type { AccountProbes } from '../cloud.ts'
import { tryCloud } from './try-cloud.ts'

/** An identity that could not be had is asked for again after so long. */
export const AGAIN_AFTER_MS = 60_000

export class OperatorPrincipal {
  readonly #cloud: AccountProbes
  readonly #clock: Clock
  #known: string | undefined
  #askAgainAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  /** @param given by the operator's settings; absent: STS is asked */
  constructor(cloud: AccountProbes, clock: Clock, given: string | undefined) {
    this.#cloud = cloud
    this.#clock = clock
    this.#known = given
  }

  /** Undefined while it cannot be had; asked for more than once at a time, STS is asked once. */
  async get(region: string): Promise<string | undefined> {
    if (this.#known === undefined && this.#clock.monotonic() >= this.#askAgainAt)
      this.#asking ??= this.#ask(region).finally(() => {
        this.#asking = undefined
      })
    await this.#asking
    return this.#known
  }

  async #ask(region: string): Promise<void> {
    const { value } = await tryCloud(() => this.#cloud.self(region))
    if (value && value.arn !== '') this.#known = principalOf(value.arn)
    this.#askAgainAt = this.#clock.monotonic() + AGAIN_AFTER_MS
  }
}
