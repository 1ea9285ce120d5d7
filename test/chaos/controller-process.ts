/** The real controller, as a process that can be killed. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export type ControllerSettings = {
  kubeconfigPath: string
  namespace: string
  /** Names it in what it writes. */
  replica: string
  opsPort: number
  waitScale: number
  /** Its log is appended to this file. */
  logPath: string
}

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** Ends it when the process that started it is gone. */
const PRELOAD = new URL('../../src/playground/end-with-parent.ts', import.meta.url).href
const READY_LIMIT_MS = 120_000
const POLL_MS = 25

export class ControllerProcess {
  readonly startedAt = performance.now()
  readonly exited: Promise<void>
  readonly #child: ChildProcess
  readonly #opsPort: number

  constructor(settings: ControllerSettings) {
    const log = openSync(settings.logPath, 'a', 0o600)
    this.#opsPort = settings.opsPort
    this.#child = spawn(process.execPath, ['--import', PRELOAD, MAIN, 'controller'], {
      stdio: ['pipe', log, log],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        KUBECONFIG: settings.kubeconfigPath,
        DAVIT_NAMESPACE: settings.namespace,
        DAVIT_REPLICA: settings.replica,
        DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8',
        DAVIT_OPS_ADDRESS: `127.0.0.1:${settings.opsPort}`,
        DAVIT_WAIT_SCALE: String(settings.waitScale),
        // Everything stays, to be compared at the end.
        DAVIT_MAX_FINISHED_PER_ENDPOINT: '1000000',
        DAVIT_MAX_FINISHED: '10000000',
        DAVIT_MAX_LOG_BYTES: String(4 * 1024 ** 3),
      },
    })
    this.exited = once(this.#child, 'exit').then(() => undefined)
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** @returns whether it became ready; false when it ended before */
  async untilReady(): Promise<boolean> {
    const limit = performance.now() + READY_LIMIT_MS
    while (this.running && performance.now() < limit) {
      if (await this.#isReady()) return true
      await sleep(POLL_MS)
    }
    if (this.running) throw new Error('the controller does not become ready')
    return false
  }

  /** A gauge of its metrics; undefined where it does not answer. */
  async gauge(name: string): Promise<number | undefined> {
    const text = await this.#ask('/metrics')
    const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(text ?? '')?.[1]
    return value === undefined ? undefined : Number(value)
  }

  /** SIGKILL: nothing of it runs any more when this resolves. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.exited
  }

  /** As Kubernetes ends a pod. */
  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await this.exited
  }

  async #isReady(): Promise<boolean> {
    return (await this.#ask('/readyz')) !== undefined
  }

  async #ask(path: string): Promise<string | undefined> {
    try {
      const answer = await fetch(`http://127.0.0.1:${this.#opsPort}${path}`, {
        signal: AbortSignal.timeout(2000),
      })
      const text = await answer.text()
      return answer.ok ? text : undefined
    } catch {
      return undefined
    }
  }
}
