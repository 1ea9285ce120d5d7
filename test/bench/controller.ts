/** The controller under measurement: the real command, in a process of its own. */

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { ProbeCalls } from './processes/probe.ts'
import { type RemoteProcess, spawnProcess } from './processes/remote-calls.ts'

export type Controller = RemoteProcess<ProbeCalls> & {
  /** Seconds from its start until it was ready. */
  readyAfter: number
  /** Deliveries that have not ended, by its own count. */
  pending(): Promise<number>
}

export type ControllerSettings = {
  kubeconfigPath: string
  /** The operator's. */
  namespace: string
  /** Further settings, by variable. */
  env?: Record<string, string>
  /** Flags of Node. */
  execArgv?: readonly string[]
}

const COMMAND = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const PROBE = new URL('./processes/probe.ts', import.meta.url).href
const READY_LIMIT_MS = 300_000
const POLL_MS = 10

/** Resolves when it is ready. @throws Error when it ends before, or does not become ready in five minutes */
export async function startController(settings: ControllerSettings): Promise<Controller> {
  const ops = `127.0.0.1:${await freePort()}`
  const started = performance.now()
  const remote = spawnProcess<ProbeCalls>(COMMAND, {
    args: ['controller'],
    execArgv: ['--expose-gc', '--import', PROBE, ...(settings.execArgv ?? [])],
    env: {
      KUBECONFIG: settings.kubeconfigPath,
      DAVIT_NAMESPACE: settings.namespace,
      DAVIT_REPLICA: 'bench',
      DAVIT_OPS_ADDRESS: ops,
      DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8',
      DAVIT_LOG_LEVEL: 'warn',
      ...settings.env,
    },
    stdout: 2,
  })
  const ended = remote.exited.then((how) => {
    throw new Error(`the controller ended: ${how}`)
  })
  ended.catch(() => undefined)
  await Promise.race([untilReady(ops, started + READY_LIMIT_MS), ended])
  const readyAfter = (performance.now() - started) / 1000
  return { ...remote, readyAfter, pending: () => readGauge(ops, 'davit_deliveries_pending') }
}

async function untilReady(ops: string, limit: number): Promise<void> {
  while (performance.now() < limit) {
    const answer = await fetch(`http://${ops}/readyz`).catch(() => undefined)
    await answer?.text()
    if (answer?.ok) return
    await sleep(POLL_MS)
  }
  throw new Error('the controller does not become ready')
}

async function readGauge(ops: string, name: string): Promise<number> {
  const text = await (await fetch(`http://${ops}/metrics`)).text()
  const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]
  if (value === undefined) throw new Error(`the controller has no metric ${name}`)
  return Number(value)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
