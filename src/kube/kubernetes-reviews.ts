import type { AccessReviewer } from './access-review.ts'
import { type ConnectOptions, connectToCluster } from './connect.ts'
import { createTokenReviewer } from './kubernetes-token-review.ts'
import { createAccessReviewer } from './reviews.ts'
import type { TokenReviewer } from './token-review.ts'

export type Reviews = { tokens: TokenReviewer; access: AccessReviewer; close(): Promise<void> }

/** A client that waits for a verdict should not wait longer. */
const DEADLINE_MS = 5_000
const CONNECTIONS = 16

/** On connections of their own, so that verdicts do not queue behind writes. @throws Error when there is no way to a cluster */
export async function connectReviews(options: ConnectOptions): Promise<Reviews> {
  const transport = await connectToCluster({ connections: CONNECTIONS, ...options, deadlineMs: DEADLINE_MS })
  return {
    tokens: createTokenReviewer(transport),
    access: createAccessReviewer(transport),
    close: () => transport.close(),
  }
}
