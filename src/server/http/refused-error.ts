/** Why a service of the facade does not do what it was asked for; each is answered as the problem of that name. */
export type RefusedCode =
  | 'not_found'
  | 'endpoint_disabled'
  | 'idempotency_conflict'
  | 'managed_elsewhere'
  | 'too_many_endpoints'
  | 'too_many_credentials'
  | 'too_many_secrets'
  /** There is no cloud account to keep a secret in. */
  | 'secrets_settings_required'
  /** There is one, and it does not take secrets. */
  | 'cloud_account_not_ready'
  | 'precondition_failed'
  /** What is stored of it cannot be used. */
  | 'unreadable'
  | 'invalid'
  /** Nothing was done; there is no room for it now. */
  | 'overloaded'
  | 'intake_full'
  /** The cluster did not answer: it is not known whether it was done. */
  | 'unavailable'
  /** The cloud did not answer; nothing of it is in force. */
  | 'cloud_unavailable'
  /** Stored, and not in force yet. */
  | 'not_acknowledged'

/** One place in the request that is wrong. */
export type RefusedPlace = {
  /** JSON pointer into the body. */
  pointer: string
  message: string
}

/** A condition of a resource, which says why. */
export type RefusedCondition = {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
}

export type RefusedDetails = {
  /** For people: what is wrong with this request, and what to do. Nothing internal. */
  detail?: string
  places?: readonly RefusedPlace[]
  condition?: RefusedCondition
  /** When to come again, in seconds; given where that helps. */
  retryAfter?: number
  cause?: unknown
}

export class RefusedError extends Error {
  override readonly name = 'RefusedError'
  readonly code: RefusedCode
  readonly detail: string | undefined
  readonly places: readonly RefusedPlace[]
  readonly condition: RefusedCondition | undefined
  readonly retryAfter: number | undefined

  constructor(code: RefusedCode, details: RefusedDetails = {}) {
    super(details.detail ?? code, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.detail = details.detail
    this.places = details.places ?? []
    this.condition = details.condition
    this.retryAfter = details.retryAfter
  }
}
