/** The pods of a role: how soon they were ready, and what they take. */
import type { NodeCluster } from '../node/cluster.ts'

export type RoleName = 'controller' | 'api'
export const ROLES: readonly RoleName[] = ['controller', 'api']
export const DAVIT = 'davit-system'

export type Pod = {
  metadata: { name: string; uid: string; deletionTimestamp?: string }
  status: {
    conditions?: { type: string; status: string; lastTransitionTime: string }[]
    containerStatuses?: { restartCount: number; state: { running?: { startedAt: string } } }[]
  }
}

const MIB = 2 ** 20

export async function podsOf(cluster: NodeCluster, role: RoleName): Promise<Pod[]> {
  const { items } = await cluster.get<{ items: Pod[] }>(
    'pods',
    '-n',
    DAVIT,
    '-l',
    `app.kubernetes.io/component=${role}`,
  )
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
}

/** From the start of the container, in the whole seconds in which the kubelet tells it. */
export function secondsToReady({ status }: Pod): number {
  const ready = status.conditions?.find(({ type, status: is }) => type === 'Ready' && is === 'True')
  const started = status.containerStatuses?.[0]?.state.running?.startedAt
  if (ready === undefined || started === undefined) throw new Error('a pod is not ready')
  return (Date.parse(ready.lastTransitionTime) - Date.parse(started)) / 1000
}

/** @returns MiB of every pod of the role: resident memory of its one process, now and at most */
export async function memoryOf(cluster: NodeCluster, role: RoleName): Promise<string> {
  const program = 'require("node:fs").readFileSync("/proc/1/status", "utf8")'
  const pods = await podsOf(cluster, role)
  const sizes = await Promise.all(
    pods.map(async ({ metadata }) => {
      const status = await cluster.kubectl([
        ...['exec', '-n', DAVIT, metadata.name, '-c', 'davit', '--'],
        ...['node', '-p', program],
      ])
      return `${mib(status, 'VmRSS')} (at most ${mib(status, 'VmHWM')})`
    }),
  )
  return `${sizes.join(', ')} MiB`
}

function mib(status: string, name: string): number {
  const [, kilobytes] = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status) ?? []
  return Math.round((Number(kilobytes) * 1024) / MIB)
}
