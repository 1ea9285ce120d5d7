/** The playground's stage: a control plane with the definitions, the organization, its receiver, the controller. */
import { mkdir, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { connectKubernetes, type KubernetesClient } from '../adapters/kubernetes/kubernetes-client.ts'
import { createClock } from '../adapters/system/clock.ts'
import { createRandom } from '../adapters/system/random.ts'
import { applyPolicies } from './admission.ts'
import { type ControlPlane, startControlPlane } from './control-plane.ts'
import { installCrds } from './control-plane-crds.ts'
import { startControllerProcess } from './controller-process.ts'
import { type PlaygroundOptions, UsageError } from './options.ts'
import { isOrdered, makeOrganization, OPERATOR_NAMESPACE, ORGANIZATION } from './organization.ts'
import { findRunning, removePlaygroundFile, writePlaygroundFile } from './playground-file.ts'
import { type Received, startPlaygroundReceiver } from './receiver.ts'
import { createSecretBook, type ReadSecret } from './secret-book.ts'
import { untilStopped } from './until-stopped.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Short waits: the first retry comes after one or two seconds. */
const SHORT_WAITS = 0.05

export type StageOptions = PlaygroundOptions & {
  stopping: AbortSignal
  readSecret: ReadSecret
  onReceived: (received: Received) => void
}

export type Stage = {
  api: KubernetesClient
  controlPlane: ControlPlane
  controllerExited: Promise<number | null>
  controllerLog: string
}

/**
 * Everything that was started ends with `stack`, the last first.
 *
 * @throws Stopped when it is to end while it starts
 * @throws UsageError another playground has the folder of the state
 * @throws ControlPlaneUnavailable no binaries, and no way to get some
 */
export async function setStage(options: StageOptions, stack: AsyncDisposableStack): Promise<Stage> {
  const { state, stopping } = options
  const file = join(state, 'playground.json')
  await claim(state, file)
  const controlPlane = await untilStopped(stopping, startedControlPlane(state))
  stack.defer(() => controlPlane.stop())
  await untilStopped(stopping, installCrds(controlPlane, `${ROOT}crds`))
  const api = await connectKubernetes({
    kubeconfigPath: controlPlane.kubeconfigPath,
    clock: createClock(),
    random: createRandom(),
  })
  stack.defer(() => api.close())
  await applyPolicies(api, `${ROOT}config/admission/delivery-log.yaml`)
  const receiver = await startPlaygroundReceiver({
    port: 0,
    isOrdered,
    secretOf: createSecretBook((endpoint) => options.readSecret(api, endpoint)),
    onReceived: options.onReceived,
  })
  stack.defer(() => receiver.close())
  await makeOrganization(api, receiver.url)
  const opsPort = await freePort()
  const controllerLog = join(state, 'controller.log')
  const controller = startControllerProcess({
    kubeconfig: controlPlane.kubeconfigPath,
    namespace: OPERATOR_NAMESPACE,
    opsPort,
    waitScale: options.realWaits ? 1 : SHORT_WAITS,
    logPath: controllerLog,
  })
  stack.defer(() => controller.stop())
  await untilStopped(stopping, controller.ready)
  await writePlaygroundFile(file, {
    pid: process.pid,
    kubeconfig: controlPlane.kubeconfigPath,
    kubectl: controlPlane.binaries.kubectl,
    namespace: ORGANIZATION,
    receiver: receiver.url,
    metrics: `http://127.0.0.1:${opsPort}/metrics`,
    health: `http://127.0.0.1:${opsPort}/healthz`,
  })
  stack.defer(() => removePlaygroundFile(file))
  return { api, controlPlane, controllerExited: controller.exited, controllerLog }
}

async function claim(state: string, file: string): Promise<void> {
  const running = await findRunning(file)
  if (running) {
    throw new UsageError(
      `A playground runs already (process ${running.pid}).\n` +
        'For a second one: npm start -- --state <another folder>',
    )
  }
  await mkdir(state, { recursive: true })
  await removePlaygroundFile(file)
}

async function startedControlPlane(state: string): Promise<ControlPlane> {
  const logPath = join(state, 'control-plane.log')
  await rm(logPath, { force: true })
  return startControlPlane({ logPath })
}

/** A port that is free now. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
