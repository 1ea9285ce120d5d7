import type { AccessReviewer } from '../../ports/access-review.ts'
import type { TokenReviewer } from '../../ports/token-review.ts'
import { createAccessReviewer } from './access-review.ts'
import { loadCluster } from './kubeconfig.ts'
import type { ConnectOptions } from './kubernetes-client.ts'
import { createTokenReviewer } from './token-review.ts'
import { createTransport } from './transport.ts'

export type Reviews = { tokens: TokenReviewer; access: AccessReviewer; close(): Promise<void> }

/** A client that waits for a verdict should not wait longer. */
const DEADLINE_MS = 5_000
const CONNECTIONS = 16

/** On connections of their own, so that verdicts do not queue behind writes. @throws Error when there is no way to a cluster */
export async function connectReviews(options: ConnectOptions): Promise<Reviews> {
  const { clock, random, metrics, connections, kubeconfigPath } = options
  const access = await loadCluster({ clock, ...(kubeconfigPath === undefined ? {} : { kubeconfigPath }) })
  const transport = createTransport({
    access,
    clock,
    random,
    ...(metrics ? { metrics } : {}),
    connections: connections ?? CONNECTIONS,
    deadlineMs: DEADLINE_MS,
  })
  return {
    tokens: createTokenReviewer(transport),
    access: createAccessReviewer(transport),
    close: () => transport.close(),
  }
}
