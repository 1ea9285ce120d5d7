const CALL_LIMIT_MS = 30_000

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
  await post(`${etcdUrl}/v3/kv/compaction`, { revision, physical: true })
  return Number(revision)
}

async function post(url: string, body: object): Promise<unknown> {
  const signal = AbortSignal.timeout(CALL_LIMIT_MS)
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal })
  const text = await response.text()
  if (!response.ok) throw new Error(`etcd answered ${response.status} to POST ${url}: ${text.slice(0, 500)}`)
  return JSON.parse(text)
}
