/** Puts the playground on stage, runs it, and takes it down in order. */

import { mkdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { connectKubernetes, type KubernetesClient } from '../adapters/kubernetes/kubernetes-client.ts'
import { createClock } from '../adapters/system/clock.ts'
import { createRandom } from '../adapters/system/random.ts'
import { applyPolicies } from './admission.ts'
import { type ControlPlane, startControlPlane } from './control-plane.ts'
import { installCrds } from './control-plane-crds.ts'
import { startControllerProcess } from './controller-process.ts'
import type { PlaygroundOptions } from './options.ts'
import {
  ENDPOINTS,
  makeOrganization,
  OPERATOR_NAMESPACE,
  ORGANIZATION,
  publish,
  readSecret,
} from './organization.ts'
import { removePlaygroundFile, writePlaygroundFile } from './playground-file.ts'
import { startPlaygroundReceiver } from './receiver.ts'
import { createScreen, type Screen } from './screen.ts'
import { Summary } from './summary.ts'
import { welcome } from './welcome.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const STATE = `${ROOT}.davit`
const FILE = `${STATE}/playground.json`
/** Short waits: the first retry comes after one or two seconds. */
const SHORT_WAITS = 0.05
const PUBLISH_EVERY_MS = 1000
const ONCE_DELIVERIES = 10
const ONCE_LIMIT_MS = 120_000

/** @returns the exit code */
export async function runPlayground(options: PlaygroundOptions, stopping: AbortSignal): Promise<number> {
  await using stack = new AsyncDisposableStack()
  const screen = createScreen((line) => process.stdout.write(`${line}\n`), process.stdout.isTTY === true)
  screen.note('Starting a local Kubernetes API server ...')
  await mkdir(STATE, { recursive: true })
  const controlPlane = await startControlPlane({ logPath: `${STATE}/control-plane.log` })
  stack.defer(() => controlPlane.stop())
  await installCrds(controlPlane, `${ROOT}crds`)
  const api = await connectKubernetes({
    kubeconfigPath: controlPlane.kubeconfigPath,
    clock: createClock(),
    random: createRandom(),
  })
  stack.defer(() => api.close())
  await applyPolicies(api, `${ROOT}config/admission/delivery-log.yaml`)
  const summary = new Summary()
  const receiver = await startReceiver(api, screen, summary)
  stack.defer(() => receiver.close())
  await makeOrganization(api, receiver.url)
  const opsPort = await freePort()
  const controller = startControllerProcess({
    kubeconfig: controlPlane.kubeconfigPath,
    namespace: OPERATOR_NAMESPACE,
    opsPort,
    waitScale: options.realWaits ? 1 : SHORT_WAITS,
    logPath: `${STATE}/controller.log`,
  })
  stack.defer(() => controller.stop())
  await controller.ready
  await tellScripts(controlPlane, receiver.url, opsPort)
  stack.defer(() => removePlaygroundFile(FILE))
  for (const line of welcome(controlPlane, options)) screen.note(line)
  screen.heading()
  return await runScene(options, { api, summary, stopping, controllerExited: controller.exited, screen })
}

type Scene = {
  api: KubernetesClient
  summary: Summary
  stopping: AbortSignal
  controllerExited: Promise<number | null>
  screen: Screen
}

/** Publishes until somebody ends it, or, once, until ten deliveries have succeeded. */
async function runScene(options: PlaygroundOptions, scene: Scene): Promise<number> {
  const { summary, screen, stopping } = scene
  const ended = Promise.race([
    new Promise<'stopped'>((resolve) =>
      stopping.addEventListener('abort', () => resolve('stopped'), { once: true }),
    ),
    scene.controllerExited.then(() => 'crashed' as const),
    ...(options.once ? [summary.delivered(ONCE_DELIVERIES).then(() => 'done' as const), timeLimit()] : []),
  ])
  let number = 0
  const publisher = setInterval(() => {
    number += 1
    publish(scene.api, number).catch((error: Error) =>
      screen.note(`An event could not be published: ${error.message}`),
    )
  }, PUBLISH_EVERY_MS)
  const how = stopping.aborted ? 'stopped' : await ended
  clearInterval(publisher)
  screen.note('')
  for (const line of summary.lines()) screen.note(line)
  if (how === 'crashed') screen.note(`The controller ended by itself; its log is ${STATE}/controller.log`)
  if (how === 'late')
    screen.note(
      `Ten deliveries did not succeed within ${ONCE_LIMIT_MS / 1000} s; see ${STATE}/controller.log`,
    )
  return how === 'crashed' || how === 'late' || summary.unverified > 0 ? 1 : 0
}

function timeLimit(): Promise<'late'> {
  return new Promise((resolve) => setTimeout(() => resolve('late'), ONCE_LIMIT_MS).unref())
}

function startReceiver(api: KubernetesClient, screen: Screen, summary: Summary) {
  const known = new Map<string, string>()
  return startPlaygroundReceiver({
    port: 0,
    isOrdered: (endpoint) => ENDPOINTS.some(({ name, ordered }) => name === endpoint && ordered),
    secretOf: async (endpoint, fresh) => {
      const held = known.get(endpoint)
      if (held !== undefined && !fresh) return held
      const read = await readSecret(api, endpoint)
      if (read !== undefined && ENDPOINTS.some(({ name }) => name === endpoint)) known.set(endpoint, read)
      return read
    },
    onReceived: (received) => {
      summary.add(received)
      screen.show(received)
    },
  })
}

async function tellScripts(controlPlane: ControlPlane, receiver: string, opsPort: number): Promise<void> {
  await writePlaygroundFile(FILE, {
    pid: process.pid,
    kubeconfig: controlPlane.kubeconfigPath,
    kubectl: controlPlane.binaries.kubectl,
    namespace: ORGANIZATION,
    receiver,
    metrics: `http://127.0.0.1:${opsPort}/metrics`,
    health: `http://127.0.0.1:${opsPort}/healthz`,
  })
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
