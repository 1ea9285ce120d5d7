/** The receiver's signing secrets: read on first use, and again when one no longer fits. */
import type { KubernetesClient } from '../src/kube/resources.ts'
import { isOurs } from './organization.ts'

/** Reads the secret of an endpoint of the playground; undefined while there is none. */
export type ReadSecret = (api: KubernetesClient, endpoint: string) => Promise<string | undefined>

export type SecretReaders = {
  /** For an endpoint of the playground. */
  ours: (endpoint: string) => Promise<string | undefined>
  /** For endpoints that others have made with this path; undefined if there are none. */
  others: (path: string) => Promise<readonly string[] | undefined>
}

/** @returns the possible secrets of a path, which stands for its endpoint, undefined if it stands for none; `fresh` after a rotation */
export function createSecretBook({ ours, others }: SecretReaders) {
  const known = new Map<string, string>()
  return async (endpoint: string, fresh: boolean): Promise<readonly string[] | undefined> => {
    // Anyone may call any path, so only a bounded set is kept; the rest can always be read again.
    if (!isOurs(endpoint)) return fresh ? [] : others(endpoint)
    const held = known.get(endpoint)
    if (held !== undefined && !fresh) return [held]
    const secret = await ours(endpoint)
    if (secret === undefined) return []
    known.set(endpoint, secret)
    return [secret]
  }
}
