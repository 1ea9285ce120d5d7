/**
 * SIGKILL for the process of a pod, from outside: the first process of a container cannot be killed from within, and a deleted pod is
 * told to end first. A pod that sees the processes of its node does it.
 */
import type { NodeCluster } from '../node/cluster.ts'

export const KILLERS = 'davit-e2e-killers'
const PRIVILEGED = { 'pod-security.kubernetes.io/enforce': 'privileged' }

/** Its cgroup has the pod's UID, with dashes or, made by systemd, with underscores. */
const PROGRAM = `
const fs = require('node:fs')
const uid = process.env.POD_UID
const killed = fs.readdirSync('/proc').filter((pid) => {
  try {
    const groups = fs.readFileSync('/proc/' + pid + '/cgroup', 'utf8').replaceAll('_', '-')
    if (!groups.includes(uid) || !fs.readFileSync('/proc/' + pid + '/cmdline', 'utf8').includes('src/main.ts')) return false
    process.kill(Number(pid), 'SIGKILL')
    return true
  } catch { return false }
})
console.log('killed ' + killed.length)
process.exit(killed.length === 1 ? 0 : 1)
`

/** @returns its output */
export async function killProcess(cluster: NodeCluster, namespace: string, name: string, image: string) {
  const pod = await cluster.get<{ metadata: { uid: string }; spec: { nodeName: string } }>(
    'pod',
    name,
    '-n',
    namespace,
  )
  await cluster.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: KILLERS, labels: PRIVILEGED } },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: KILLERS, name },
      spec: {
        hostPID: true,
        nodeName: pod.spec.nodeName,
        restartPolicy: 'Never',
        automountServiceAccountToken: false,
        containers: [
          {
            name: 'killer',
            image,
            command: ['node', '-e', PROGRAM],
            env: [{ name: 'POD_UID', value: pod.metadata.uid }],
            securityContext: { runAsUser: 0 },
          },
        ],
      },
    },
  )
  const { came } = await cluster.comesOf(KILLERS, name)
  const output = (await cluster.kubectl(['logs', '-n', KILLERS, name])).trim()
  if (came !== 'Succeeded') throw new Error(`the process of ${name} was not killed: ${came}, ${output}`)
  return output
}
