/** A role of Davit under measurement: the real command, in a process of its own. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../playground/free-port.ts'
import type { ProbeCalls } from './processes/probe.ts'
import { type RemoteProcess, spawnProcess } from './processes/remote-calls.ts'

export type DavitRole = RemoteProcess<ProbeCalls> & {
  /** Seconds from its start until it was ready. */
  readyAfter: number
  /** One of its metrics, which has no labels. */
  gauge(name: string): Promise<number>
  /** Of all series of one of its metrics that have a label. */
  sum(name: string, label: string): Promise<number>
}

export type RoleSettings = {
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
export async function startRole(role: 'controller' | 'api', settings: RoleSettings): Promise<DavitRole> {
  const ops = `127.0.0.1:${await freePort()}`
  const started = performance.now()
  const remote = spawnProcess<ProbeCalls>(COMMAND, {
    args: [role],
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
    throw new Error(`davit ${role} ended: ${how}`)
  })
  ended.catch(() => undefined)
  await Promise.race([untilReady(role, ops, started + READY_LIMIT_MS), ended])
  const readyAfter = (performance.now() - started) / 1000
  return {
    ...remote,
    readyAfter,
    gauge: (name) => readGauge(ops, name),
    sum: (name, label) => readSum(ops, name, label),
  }
}

async function untilReady(role: string, ops: string, limit: number): Promise<void> {
  while (performance.now() < limit) {
    const answer = await fetch(`http://${ops}/readyz`).catch(() => undefined)
    await answer?.text()
    if (answer?.ok) return
    await sleep(POLL_MS)
  }
  throw new Error(`davit ${role} does not become ready`)
}

async function readSum(ops: string, name: string, label: string): Promise<number> {
  const series = (await metricsOf(ops)).matchAll(new RegExp(`^${name}\\{([^}]*)\\} (\\S+)$`, 'gm'))
  return [...series].reduce(
    (sum, [, labels = '', value]) => sum + (labels.includes(label) ? Number(value) : 0),
    0,
  )
}

async function metricsOf(ops: string): Promise<string> {
  return await (await fetch(`http://${ops}/metrics`)).text()
}

async function readGauge(ops: string, name: string): Promise<number> {
  const text = await metricsOf(ops)
  const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]
  if (value === undefined) throw new Error(`there is no metric ${name}`)
  return Number(value)
}
