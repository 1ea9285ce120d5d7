/**
 * The finished deliveries that have an object, oldest first for each endpoint: what retention may delete. Slim,
 * since there may be 200,000.
 */
export type Finished = {
  namespace: string
  name: string
  endpointUid: string
  succeeded: boolean
  completedAt: number
  segment?: string
}
