/** Runs a role of `davit` as in production, in a separate process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export type Exit = { code: number | null; signal: NodeJS.Signals | null }

export type DavitProcess = {
  pid: number | undefined
  /** Resolves when it is ready. @throws Error if it ends instead, or takes too long */
  ready: Promise<void>
  exited: Promise<Exit>
  stop(): Promise<void>
}

export type DavitProcessOptions = {
  role: 'controller' | 'api'
  kubeconfig: string
  namespace: string
  opsPort: number
  /** In addition to the settings that both roles have here. */
  settings: Readonly<Record<string, string>>
  /** Log file, as JSON lines. */
  logPath: string
}

const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const PRELOAD = new URL('./end-with-parent.ts', import.meta.url).href
const READY_LIMIT_MS = 60_000
/** Short, because its store is deleted as well: there is nothing to lose. */
const STOP_LIMIT_MS = 3500

export function startDavitProcess(options: DavitProcessOptions): DavitProcess {
  const log = openSync(options.logPath, 'w', 0o600)
  const child = spawn(process.execPath, ['--import', PRELOAD, MAIN, options.role], {
    stdio: ['pipe', log, log],
    // Its own process group: a Ctrl-C reaches only the playground, which then ends everything in order.
    detached: true,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      KUBECONFIG: options.kubeconfig,
      DAVIT_NAMESPACE: options.namespace,
      DAVIT_REPLICA: `playground-${options.role}`,
      DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8,::1/128',
      DAVIT_OPS_ADDRESS: `127.0.0.1:${options.opsPort}`,
      DAVIT_SHUTDOWN_TIMEOUT: '1s',
      ...options.settings,
    },
  })
  child.on('error', () => undefined)
  const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }) as Exit)
  return { pid: child.pid, ready: untilReady(options, child), exited, stop: () => stop(child, exited) }
}

async function untilReady(options: DavitProcessOptions, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + READY_LIMIT_MS
  while (performance.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null) break
    const answer = await fetch(`http://127.0.0.1:${options.opsPort}/readyz`).catch(() => undefined)
    if (answer?.ok) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`davit ${options.role} did not become ready. See its log: ${options.logPath}`)
}

async function stop(child: ChildProcess, exited: Promise<Exit>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
  await exited
  clearTimeout(timer)
}
