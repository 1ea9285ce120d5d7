/** Who a token belongs to, as the API server says. */
export type CallerIdentity = {
  /** Such as `system:serviceaccount:acme:ci`. */
  username: string
  uid: string
  groups: readonly string[]
  extra: Readonly<Record<string, readonly string[]>>
}

export interface TokenReviewer {
  /**
   * The owner of a token that is valid for Davit's audience, undefined for any other token.
   * @throws ApiError when the API server did not say
   */
  review(token: string): Promise<CallerIdentity | undefined>
}
