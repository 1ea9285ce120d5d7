/** docs/get-started/first-webhook.md, block by block, like a user who pastes it into a terminal. Parts that need nodes are replaced. */

import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeKubeconfig } from '../../playground/api-keys.ts'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { RoleProcess } from '../support/role-process.ts'
import { ShellSession } from '../support/shell-session.ts'
import { until } from '../support/until.ts'

const TEST_LIMIT_MS = 240_000
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PAGE = new URL('../../docs/get-started/first-webhook.md', import.meta.url)
const SYSTEM = 'davit-system'
const DEPLOYMENTS = `/apis/apps/v1/namespaces/${SYSTEM}/deployments`

let controlPlane: ControlPlane
let receiver: Receiver
let folder: string
let controller: RoleProcess | undefined

beforeAll(async () => {
  const tools = await findChartTools()
  receiver = await startReceiver()
  controlPlane = await startControlPlane()
  folder = await mkdtemp(join(tmpdir(), 'davit-first-'))
  await symlink(join(tools, 'helm4'), join(folder, 'helm'))
  await symlink(controlPlane.binaries.kubectl, join(folder, 'kubectl'))
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await controller?.stop()
  await controlPlane?.stop()
  await receiver?.close()
  await rm(folder, { recursive: true, force: true })
})

/** What the controller of Deployments and the kubelets do: the pod of the controller runs, and both Deployments are there. */
async function runPods(): Promise<void> {
  for (const name of ['davit-controller', 'davit-api']) {
    const path = `${DEPLOYMENTS}/${name}`
    const spec = await until(
      async () => {
        const { status, body } = await requestApi(controlPlane.access, { method: 'GET', path })
        return status === 200 ? (body as { spec: { replicas: number } }).spec : undefined
      },
      () => `there is no Deployment ${name}`,
    )
    if (name === 'davit-controller') await startController()
    const { replicas } = spec
    const counts = {
      replicas,
      updatedReplicas: replicas,
      readyReplicas: replicas,
      availableReplicas: replicas,
    }
    const body = { status: { observedGeneration: 1, ...counts } }
    const contentType = 'application/merge-patch+json'
    await requestApi(controlPlane.access, { method: 'PATCH', path: `${path}/status`, contentType, body })
  }
}

async function startController(): Promise<void> {
  const kubeconfigPath = join(folder, 'controller.kubeconfig')
  await writeKubeconfig(kubeconfigPath, controlPlane.access, { namespace: SYSTEM, name: 'davit-controller' })
  controller = new RoleProcess({
    role: 'controller',
    kubeconfigPath,
    namespace: SYSTEM,
    replica: 'davit-controller-0',
    opsPort: await freePort(),
    logPath: join(folder, 'controller.log'),
  })
  await controller.untilReady()
}

test(
  'the page leads from an empty cluster to a verified delivery',
  async () => {
    const page = await readFile(PAGE, 'utf8')
    const [, ...blocks] = [...page.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block)
    expect(blocks).toHaveLength(5)
    await using shell = await ShellSession.start({ cwd: ROOT, path: folder })
    const values = {
      KUBECONFIG: controlPlane.kubeconfigPath,
      IMAGE: 'davit',
      RECEIVER: `${receiver.url}/hooks`,
    }
    await shell.paste(exported(values))
    const [install = '', ...rest] = blocks
    const signature = rest.pop() ?? ''
    await Promise.all([pasted(shell, install), runPods()])
    let output = ''
    for (const block of rest) output = await pasted(shell, block)
    expect(output).toMatch(/succeeded/)
    const [request] = await receiver.waitFor(1, { path: '/hooks' })
    const header = (name: string) => String(request?.headers[`webhook-${name}`])
    await shell.paste(
      exported({
        WEBHOOK_ID: header('id'),
        WEBHOOK_TIMESTAMP: header('timestamp'),
        WEBHOOK_SIGNATURE: header('signature'),
        WEBHOOK_BODY: request?.body.toString() ?? '',
      }),
    )
    expect(await pasted(shell, signature)).toBe('verified\n')
  },
  TEST_LIMIT_MS,
)

function exported(values: Record<string, string>): string {
  return Object.entries(values)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'`)
    .join('\n')
}

async function pasted(shell: ShellSession, block: string): Promise<string> {
  const { code, stdout, stderr } = await shell.paste(block)
  expect({ code, stderr: code === 0 ? '' : stderr }, block).toEqual({ code: 0, stderr: '' })
  return stdout
}
