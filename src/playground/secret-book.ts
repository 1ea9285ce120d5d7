/** The receiver's signing secrets: read when they are needed first, and again when one does not fit any more. */
import type { KubernetesClient } from '../adapters/kubernetes/kubernetes-client.ts'
import { isOurs } from './organization.ts'

/** How the secret of an endpoint is found out; undefined while there is none. */
export type ReadSecret = (api: KubernetesClient, endpoint: string) => Promise<string | undefined>

/** @returns the secret of an endpoint; `fresh` after a roll */
export function createSecretBook(read: (endpoint: string) => Promise<string | undefined>) {
  const known = new Map<string, string>()
  return async (endpoint: string, fresh: boolean): Promise<string | undefined> => {
    const held = known.get(endpoint)
    if (held !== undefined && !fresh) return held
    const secret = await read(endpoint)
    // Anybody may call any path: only what can be asked for again without end is kept.
    if (secret !== undefined && isOurs(endpoint)) known.set(endpoint, secret)
    return secret
  }
}
