import { callEtcd } from './control-plane-etcd-call.ts'

/** Somebody else has compacted it, such as the API server: what is wanted is so. */
const COMPACTED = 'required revision has been compacted'

/**
 * Compacts etcd at its newest revision, as an API server does every five minutes to versions that old.
 *
 * @param etcdUrl client address
 * @returns the revision
 */
export async function compactEtcd(etcdUrl: string): Promise<number> {
  const status = (await callEtcd(`${etcdUrl}/v3/maintenance/status`, {})) as { header: { revision: string } }
  const revision = status.header.revision
  // Physical: answered when what it removes is gone from the disk as well.
  await callEtcd(`${etcdUrl}/v3/kv/compaction`, { revision, physical: true }, COMPACTED)
  return Number(revision)
}
