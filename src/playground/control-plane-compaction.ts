const CALL_LIMIT_MS = 30_000
/** Somebody else has compacted it, such as the API server: what is wanted is so. */
const COMPACTED = 'required revision has been compacted'

/**
 * Compacts etcd at its newest revision, as an API server does every five minutes to versions that old.
 *
 * @param etcdUrl client address
 * @returns the revision
 */
export async function compactEtcd(etcdUrl: string): Promise<number> {
  const status = (await post(`${etcdUrl}/v3/maintenance/status`, {})) as { header: { revision: string } }
  const revision = status.header.revision
  // Physical: answered when what it removes is gone from the disk as well.
  await post(`${etcdUrl}/v3/kv/compaction`, { revision, physical: true }, COMPACTED)
  return Number(revision)
}

/** @param unless words of a refusal that is none */
async function post(url: string, body: object, unless?: string): Promise<unknown> {
  const signal = AbortSignal.timeout(CALL_LIMIT_MS)
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal })
  const text = await response.text()
  const isFine = response.ok || (unless !== undefined && text.includes(unless))
  if (!isFine) throw new Error(`etcd answered ${response.status} to POST ${url}: ${text.slice(0, 500)}`)
  return JSON.parse(text)
}
