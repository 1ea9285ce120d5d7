/** What the surface bears at once. */
export type RequestLimits = {
  /** Requests a second of one key, and of one organization by whatever keys. */
  perKey: number
  perOrganization: number
  /** Requests that are being answered at once. */
  requests: number
  /** Bytes of their bodies together. */
  bytesInFlight: number
  bodyBytes: number
  /** For the body to arrive. */
  bodyMs: number
  /** For the answer, once the body is there. */
  answerMs: number
}

export const REQUEST_LIMITS: RequestLimits = {
  perKey: 10_000,
  perOrganization: 10_000,
  requests: 1_000,
  bytesInFlight: 16 * 1024 * 1024,
  bodyBytes: 256 * 1024,
  bodyMs: 10_000,
  answerMs: 30_000,
}
