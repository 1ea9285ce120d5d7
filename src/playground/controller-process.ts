/** Runs `davit controller` as it runs in production, as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export type ControllerProcess = {
  /** Resolves when it is ready to deliver. @throws Error when it ends instead, or takes too long */
  ready: Promise<void>
  /** Settles when it has ended, with its exit code. */
  exited: Promise<number | null>
  stop(): Promise<void>
}

export type ControllerProcessOptions = {
  kubeconfig: string
  namespace: string
  opsPort: number
  /** Factor on the documented waits. */
  waitScale: number
  /** Its log, JSON lines. */
  logPath: string
}

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url))
const PRELOAD = new URL('./end-with-parent.ts', import.meta.url).href
const READY_LIMIT_MS = 60_000
/** Its store goes too: there is nothing to lose. */
const STOP_LIMIT_MS = 3500

export function startControllerProcess(options: ControllerProcessOptions): ControllerProcess {
  const log = openSync(options.logPath, 'w', 0o600)
  const child = spawn(process.execPath, ['--import', PRELOAD, MAIN, 'controller'], {
    stdio: ['pipe', log, log],
    // A group of its own: Ctrl-C reaches the playground alone, which then ends everything in order.
    detached: true,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      KUBECONFIG: options.kubeconfig,
      DAVIT_NAMESPACE: options.namespace,
      DAVIT_REPLICA: 'playground',
      DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8,::1/128',
      DAVIT_OPS_ADDRESS: `127.0.0.1:${options.opsPort}`,
      DAVIT_WAIT_SCALE: String(options.waitScale),
      DAVIT_DRAIN_SECONDS: '1',
    },
  })
  child.on('error', () => undefined)
  const exited = once(child, 'exit').then(([code]) => code as number | null)
  return { ready: untilReady(options, child), exited, stop: () => stop(child, exited) }
}

async function untilReady(options: ControllerProcessOptions, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + READY_LIMIT_MS
  while (performance.now() < deadline) {
    if (child.exitCode !== null) break
    const answer = await fetch(`http://127.0.0.1:${options.opsPort}/readyz`).catch(() => undefined)
    if (answer?.ok) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`the controller did not become ready; its log is ${options.logPath}`)
}

async function stop(child: ChildProcess, exited: Promise<number | null>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
  await exited
  clearTimeout(timer)
}
