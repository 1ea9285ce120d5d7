import type { CallerIdentity } from './token-review.ts'

/** A right in one namespace; an empty namespace would mean all of them. */
export type ResourceAttributes = {
  namespace: string
  /** Of the API, such as `davit.dev`. */
  group: string
  verb: string
  resource: string
  subresource?: string
}

export interface AccessReviewer {
  /** Whether RBAC lets `who` do it. @throws ApiError when the API server did not say */
  allowed(who: CallerIdentity, question: ResourceAttributes): Promise<boolean>
}
