import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { connectKubernetes, type KubernetesClient } from '../src/kube/resources.ts'
import { createClock, createRandom } from '../src/lib/time.ts'
import { makeOwner } from './api-keys.ts'
import { type Bakes, type PreparedBakes, prepareBakes, startBakes } from './bakes/bakes.ts'
import { WORKS, WRONG_PASSWORD } from './bakes/box.ts'
import { startPlaygroundCloud } from './cloud.ts'
import { installCrds } from './control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from './control-plane/control-plane.ts'
import { describeExit, lastToEnd, type PlaygroundController, startControllers } from './controllers.ts'
import { type SavedCredentials, saveCredentials } from './credentials.ts'
import { applyInstallation } from './installation.ts'
import { type PlaygroundOptions, UsageError } from './options.mjs'
import {
  isOrdered,
  makeEndpoints,
  makeNamespaces,
  mayFail,
  ORGANIZATION,
  OTHER_ORGANIZATION,
  readSecretsOf,
} from './organization.ts'
import { findRunning, removePlaygroundFile, writePlaygroundFile } from './playground-file.ts'
import { type PlaygroundReceiver, type Received, startPlaygroundReceiver } from './receiver.ts'
import { type PlaygroundRestServer, startRestServer } from './rest-server.ts'
import { fitted } from './screen.ts'
import { createSecretBook, type ReadSecret } from './secret-book.ts'

/** Thrown if the playground is to end before it runs. */
export class Stopped extends Error {
  override readonly name = 'Stopped'
}

/** Waits for the work, or until the playground is to end; unfinished work ends with the process. @throws Stopped */
async function untilStopped<T>(stopping: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(new Stopped())
  stopping.addEventListener('abort', stop, { once: true })
  if (stopping.aborted) stop()
  try {
    return await Promise.race([work, promise])
  } finally {
    stopping.removeEventListener('abort', stop)
  }
}

/**
 * The environment of the playground: a control plane with the definitions, organizations, a receiver, controllers and a REST
 * server.
 */

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Paths without an endpoint that are reported, and their longest. */
const MAX_UNKNOWN_PATHS = 20
const MAX_UNKNOWN_LENGTH = 80

const BAKING = [
  'Davit is baking two boxes, with the credentials for the bake registry. Results appear below.',
  '',
]

export type StageOptions = PlaygroundOptions & {
  stopping: AbortSignal
  readSecret: ReadSecret
  onReceived: (received: Received) => void
  /** Prints a line immediately. */
  note: (line: string) => void
  /** Shows the results of bakes, and commands to try afterwards. */
  showBakes: (lines: readonly string[], commands?: readonly string[]) => void
}

export type Stage = {
  api: KubernetesClient
  controlPlane: ControlPlane
  /** Resolves with a sentence when the REST server or the last controller has ended by itself. */
  crashed: Promise<string>
  controllers: readonly [PlaygroundController, ...PlaygroundController[]]
  /** Lines about the content of the cloud account. */
  held: readonly string[]
  restServer: PlaygroundRestServer['facts']
  bakes: Bakes
  /** URL of the receiver. */
  receiver: string
}

/**
 * Everything that was started ends with `stack`, in reverse order.
 *
 * @throws Stopped if it is to end while it starts
 * @throws UsageError another playground uses the state folder
 * @throws ControlPlaneUnavailable no binaries, and no way to get some
 */
export async function setStage(options: StageOptions, stack: AsyncDisposableStack): Promise<Stage> {
  const { state, stopping } = options
  const file = join(state, 'playground.json')
  await claim(state, file)
  const prepared = await prepareBakes(options)
  const controlPlane = await untilStopped(stopping, startedControlPlane(state))
  stack.defer(() => controlPlane.stop())
  await untilStopped(stopping, installCrds(controlPlane, `${ROOT}crds`))
  const api = await connectKubernetes({
    kubeconfigPath: controlPlane.kubeconfigPath,
    clock: createClock(),
    random: createRandom(),
  })
  stack.defer(() => api.close())
  await makeNamespaces(api)
  await applyInstallation(api, `${ROOT}config/`)
  const receiver = await startedReceiver(options, api)
  stack.defer(() => receiver.close())
  await makeEndpoints(api, receiver.url)
  for (const organization of [ORGANIZATION, OTHER_ORGANIZATION]) await makeOwner(api, organization)
  const cloud = await startPlaygroundCloud(createClock())
  stack.defer(() => cloud.stop())
  const { environment } = cloud
  const controllers = await startControllers({ ...options, environment }, controlPlane, stack)
  const [{ opsUrl }] = controllers
  const restServer = await startRestServer({ state, environment }, controlPlane, stack)
  await untilStopped(stopping, Promise.all([...controllers, restServer].map(({ process }) => process.ready)))
  const { logins } = prepared
  const saved = await untilStopped(
    stopping,
    saveCredentials({ api, cloud, restServer: restServer.facts, logins }),
  )
  const files = { passwordFile: join(state, 'registry.password'), log: join(state, 'bakes.log') }
  await writePlaygroundFile(file, {
    pid: process.pid,
    kubeconfig: controlPlane.kubeconfigPath,
    kubectl: controlPlane.binaries.kubectl,
    namespace: ORGANIZATION,
    ...restServer.facts,
    ...bakeFacts(prepared, saved, files),
    receiver: receiver.url,
    metrics: `${opsUrl}/metrics`,
    health: `${opsUrl}/healthz`,
    controllers: controllers.map(({ replica, process: { pid }, log, opsUrl }) => ({
      ...{ replica, pid, log },
      metrics: `${opsUrl}/metrics`,
    })),
  })
  stack.defer(() => removePlaygroundFile(file))
  const bakes = startBakes({
    ...{ prepared, api, controlPlane, files, once: options.once, show: options.showBakes },
    ...{ account: saved.account, credentials: saved.ids, restServer: restServer.facts },
    endpoint: environment.AWS_ENDPOINT_URL ?? '',
  })
  stack.defer(() => bakes.stop())
  let isOver = false
  stack.defer(() => {
    isOver = true
  })
  const note = (line: string) => {
    if (!isOver) options.note(line)
  }
  const crashed = Promise.race([
    lastToEnd(controllers, note),
    restServer.process.exited.then(
      (exit) => `The REST server ${describeExit(exit)}. See its log: ${restServer.log}`,
    ),
  ])
  const held = [...saved.lines, ...(logins.length > 0 ? BAKING : [])]
  return {
    ...{ api, controlPlane, crashed, controllers, held, bakes },
    restServer: restServer.facts,
    receiver: receiver.url,
  }
}

type BakeFiles = { passwordFile: string; log: string }

function bakeFacts({ host }: PreparedBakes, { ids }: SavedCredentials, files: BakeFiles) {
  const [right, wrong] = ids
  if (right === undefined || wrong === undefined) return {}
  const works = { template: WORKS, credential: right }
  const wrongPassword = { template: WRONG_PASSWORD, credential: wrong }
  return { bakes: { registry: host, ...files, works, wrongPassword } }
}

async function startedReceiver(options: StageOptions, api: KubernetesClient): Promise<PlaygroundReceiver> {
  const receiver: PlaygroundReceiver = await startPlaygroundReceiver({
    isOrdered,
    mayFail,
    secretsOf: createSecretBook({
      ours: (endpoint) => options.readSecret(api, endpoint),
      others: (path) => readSecretsOf(api, receiver.url, path),
    }),
    onReceived: options.onReceived,
    onUnknownPath: noteOnce((path) =>
      options.note(
        `A request arrived for ${receiver.url}/${path}, but no endpoint of this playground has that URL.`,
      ),
    ),
  })
  return receiver
}

/** Passes each path on once, and only the first ones: anyone may send to the receiver. */
function noteOnce(note: (path: string) => void): (path: string) => void {
  const noted = new Set<string>()
  return (path) => {
    if (noted.size >= MAX_UNKNOWN_PATHS || noted.has(path)) return
    noted.add(path)
    note(fitted(path, MAX_UNKNOWN_LENGTH).trimEnd())
  }
}

async function claim(state: string, file: string): Promise<void> {
  const running = await findRunning(file)
  if (running) {
    throw new UsageError(
      `A playground is already running (process ${running.pid}).\n` +
        'To start a second one, run: npm start -- --state <another folder>',
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
