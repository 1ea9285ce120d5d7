/** A role of the real `davit`, as a process that can be killed. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export type RoleProcessOptions = {
  role: 'controller' | 'api'
  kubeconfigPath: string
  namespace: string
  /** Replica name in what it writes; absent: the name of this host. */
  replica?: string | undefined
  opsPort: number
  /** File to which its log is appended. */
  logPath: string
  /** Other settings, as DAVIT_ variables. */
  settings?: Readonly<Record<string, string>>
  /** Entry point of another version; absent: this one. */
  main?: string | undefined
}

/** Entry point of this version. */
export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** Ends it when its parent process is gone. */
const PRELOAD = new URL('../../playground/end-with-parent.ts', import.meta.url).href
const EXIT_PRELOAD = new URL('./exit-preload.ts', import.meta.url).href
const STALL_PRELOAD = new URL('./stall-preload.ts', import.meta.url).href
const READY_LIMIT_MS = 120_000
const POLL_MS = 25
const ASK_LIMIT_MS = 2000
const LOG_TAIL_LENGTH = 2000

/** Settings of a process that can be stalled. */
export function stallingFor(ms: number): Record<string, string> {
  return { NODE_OPTIONS: `--import ${STALL_PRELOAD}`, STALL_MS: String(ms) }
}

/** Settings of a process that exits whenever it is about to send to that path. */
export function exitingAt(path: string): Record<string, string> {
  return { NODE_OPTIONS: `--import ${EXIT_PRELOAD}`, EXIT_PATH: path }
}

export class RoleProcess {
  readonly startedAt = performance.now()
  /** Settles with the exit code when it has ended; null if a signal ended it. */
  readonly exited: Promise<number | null>
  readonly #child: ChildProcess
  readonly #options: RoleProcessOptions

  constructor(options: RoleProcessOptions) {
    this.#options = options
    const log = openSync(options.logPath, 'a', 0o600)
    this.#child = spawn(process.execPath, ['--import', PRELOAD, options.main ?? MAIN, options.role], {
      stdio: ['pipe', log, log],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        KUBECONFIG: options.kubeconfigPath,
        DAVIT_NAMESPACE: options.namespace,
        DAVIT_REPLICA: options.replica,
        DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8',
        DAVIT_OPS_ADDRESS: `127.0.0.1:${options.opsPort}`,
        ...options.settings,
      },
    })
    closeSync(log)
    this.exited = once(this.#child, 'exit').then(([code]) => code as number | null)
  }

  get metricsUrl(): string {
    return `http://127.0.0.1:${this.#options.opsPort}/metrics`
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** @throws Error with the end of its log if it has ended, or if it takes too long */
  async untilReady(): Promise<void> {
    if (await this.readyOrEnded()) return
    const { role, logPath } = this.#options
    // A pipe has no end while a process holds it open.
    const log = (await stat(logPath)).isFile() ? await readFile(logPath, 'utf8') : 'its log is no file'
    throw new Error(`the ${role} has ended before it was ready: ${log.slice(-LOG_TAIL_LENGTH)}`)
  }

  /** @returns whether it became ready; false if it ended before @throws Error if it takes too long */
  async readyOrEnded(): Promise<boolean> {
    const limit = performance.now() + READY_LIMIT_MS
    while (this.running && performance.now() < limit) {
      // If it ended because its port was taken, another process answers there.
      if ((await this.isReady()) && this.running) return true
      await sleep(POLL_MS)
    }
    if (!this.running) return false
    throw new Error(`the ${this.#options.role} does not become ready: ${await this.readiness()}`)
  }

  async isReady(): Promise<boolean> {
    return (await this.#ask('/readyz')).ok
  }

  /** The text of its readiness endpoint. */
  async readiness(): Promise<string> {
    return (await this.#ask('/readyz')).text
  }

  /** A gauge of its metrics; undefined without an answer. */
  async gauge(name: string): Promise<number | undefined> {
    const { text } = await this.#ask('/metrics')
    const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]
    return value === undefined ? undefined : Number(value)
  }

  /** SIGKILL: the process is gone when this resolves. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.exited
  }

  /** SIGSTOP: it is suspended with open connections until it is resumed or killed. */
  suspend(): void {
    this.#child.kill('SIGSTOP')
  }

  resume(): void {
    this.#child.kill('SIGCONT')
  }

  /** Blocks its event loop for a while: timers and answers wait, and its connections stay open. See `stallingFor`. */
  stall(): void {
    this.#child.kill('SIGUSR2')
  }

  /** Ends it like Kubernetes ends a pod. @returns the exit code */
  async stop(): Promise<number | null> {
    this.terminate()
    return await this.exited
  }

  /** Asks it to end without waiting. */
  terminate(): void {
    this.#child.kill('SIGTERM')
  }

  async #ask(path: string): Promise<{ ok: boolean; text: string }> {
    try {
      const answer = await fetch(`http://127.0.0.1:${this.#options.opsPort}${path}`, {
        signal: AbortSignal.timeout(ASK_LIMIT_MS),
      })
      return { ok: answer.ok, text: await answer.text() }
    } catch (error) {
      return { ok: false, text: `no answer: ${(error as Error).message}` }
    }
  }
}
