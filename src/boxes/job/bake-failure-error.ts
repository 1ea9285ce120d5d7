import type { BakeResult } from '../../apis/bake-result.ts'

export type BakeFailure = NonNullable<BakeResult['failure']>

/** Why a bake ends without a box. */
export class BakeFailureError extends Error {
  override readonly name = 'BakeFailureError'
  readonly failure: BakeFailure

  constructor(failure: BakeFailure) {
    super(failure.message)
    this.failure = failure
  }
}
