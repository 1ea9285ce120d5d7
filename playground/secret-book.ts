/** The receiver's signing secrets: read when they are needed first, and again when one does not fit any more. */
import type { KubernetesClient } from '../src/kube/resources.ts'
import { isOurs } from './organization.ts'

/** How the secret of an endpoint that the playground made is found out; undefined while there is none. */
export type ReadSecret = (api: KubernetesClient, endpoint: string) => Promise<string | undefined>

export type SecretReaders = {
  /** Of an endpoint that the playground made. */
  ours: (endpoint: string) => Promise<string | undefined>
  /** Of whatever endpoints others have made with this path. */
  others: (path: string) => Promise<string[]>
}

/** @returns the secrets that may be those of a path, which is its endpoint's; `fresh` after a roll */
export function createSecretBook({ ours, others }: SecretReaders) {
  const known = new Map<string, string>()
  return async (endpoint: string, fresh: boolean): Promise<readonly string[]> => {
    // Anybody may call any path: only what can be asked for again without end is kept.
    if (!isOurs(endpoint)) return fresh ? [] : others(endpoint)
    const held = known.get(endpoint)
    if (held !== undefined && !fresh) return [held]
    const secret = await ours(endpoint)
    if (secret === undefined) return []
    known.set(endpoint, secret)
    return [secret]
  }
}
