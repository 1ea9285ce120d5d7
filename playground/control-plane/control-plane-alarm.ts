import { callEtcd } from './control-plane-etcd-call.ts'

/**
 * Raises or ends the alarm that etcd gives itself when its disk or its quota is full: as long as it stands, etcd answers reads and
 * deletes, and refuses every other write.
 *
 * @param etcdUrl client address
 */
export async function setNoSpace(etcdUrl: string, isFull: boolean): Promise<void> {
  const status = (await callEtcd(`${etcdUrl}/v3/maintenance/status`, {})) as { header: { member_id: string } }
  await callEtcd(`${etcdUrl}/v3/maintenance/alarm`, {
    action: isFull ? 'ACTIVATE' : 'DEACTIVATE',
    memberID: status.header.member_id,
    alarm: 'NOSPACE',
  })
}
