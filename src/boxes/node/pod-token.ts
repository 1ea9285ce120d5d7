/** The service account token of a pod, as kubelet hands it on: whose it is. STS and nobody here proves that it is genuine. */
import { DNS_LABEL } from '../../apis/meta.ts'

export type PodIdentity = { namespace: string; serviceAccount: string }

/** Far above what the API server makes. */
const MAX_TOKEN = 16 * 1024

/** @returns undefined where it is no token of a service account */
export function parsePodIdentity(token: string): PodIdentity | undefined {
  if (token.length > MAX_TOKEN) return undefined
  const [, namespace = '', serviceAccount = ''] =
    /^system:serviceaccount:([^:]+):([^:]+)$/.exec(subjectOf(token) ?? '') ?? []
  return DNS_LABEL.test(namespace) && serviceAccount !== '' ? { namespace, serviceAccount } : undefined
}

function subjectOf(token: string): string | undefined {
  const [, claims, , ...more] = token.split('.')
  if (claims === undefined || more.length > 0) return undefined
  try {
    const { sub } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as { sub?: unknown }
    return typeof sub === 'string' ? sub : undefined
  } catch {
    return undefined
  }
}
