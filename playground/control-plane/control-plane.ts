import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type {
  ControlPlanePids,
  HelperAction,
  HelperMessage,
  HelperRequest,
  HelperSettings,
  StartedControlPlane,
} from './protocol.ts'

const PROGRAM = fileURLToPath(new URL('./control-plane-process.ts', import.meta.url))

/** A little longer than the helper gives itself. */
const END_LIMIT_MS = 20_000

/** The control plane did not start, or ended before it was asked to. */
export class ControlPlaneFailed extends Error {
  override readonly name = 'ControlPlaneFailed'
}

export type HelperStart = HelperSettings & {
  /** Environment of helper, etcd and API server, all of it. */
  env: Record<string, string>
  /** File descriptor for what the servers print. */
  stderr: number | 'inherit'
}

/** The owner's end of the helper process. */
export class ControlPlaneHelper {
  readonly started: Promise<StartedControlPlane>
  /** Settles when helper, etcd and API server are gone, for whatever reason. */
  readonly exited: Promise<void>
  private readonly process: ChildProcess
  private readonly stdin: Writable
  private readonly waiting = new Map<number, PromiseWithResolvers<void>>()
  private readonly start = Promise.withResolvers<StartedControlPlane>()
  private lastPids: ControlPlanePids | undefined
  private lastId = 0

  constructor({ env, stderr, ...settings }: HelperStart) {
    // Detached is a process group of its own: a Ctrl-C is for the owner, which stops the helper when it is done.
    const child = spawn(process.execPath, [PROGRAM], {
      detached: true,
      env,
      stdio: ['pipe', 'pipe', stderr],
    })
    this.process = child
    this.stdin = child.stdin as Writable
    this.started = this.start.promise
    this.exited = once(child, 'exit').then(() => this.afterExit(settings))
    // Writing to a helper that has just ended; its exit is what is reported.
    this.stdin.on('error', () => {})
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      this.receive(JSON.parse(line) as HelperMessage)
    })
    this.stdin.write(`${JSON.stringify(settings satisfies HelperSettings)}\n`)
  }

  /** @throws ControlPlaneFailed before it has started */
  get pids(): ControlPlanePids {
    if (this.lastPids === undefined) throw new ControlPlaneFailed('the control plane has not started')
    return this.lastPids
  }

  /** @throws ControlPlaneFailed with the server's last output, or when the helper is gone */
  request(action: HelperAction): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) {
      return Promise.reject(new ControlPlaneFailed('the control plane has ended'))
    }
    const request: HelperRequest = { id: ++this.lastId, action }
    const answer = Promise.withResolvers<void>()
    this.waiting.set(request.id, answer)
    this.stdin.write(`${JSON.stringify(request)}\n`)
    return answer.promise
  }

  /** Returns when nothing is left. May be called more than once. */
  async stop(): Promise<void> {
    this.stdin.end()
    const force = setTimeout(() => this.killGroup(), END_LIMIT_MS)
    await this.exited
    clearTimeout(force)
  }

  private receive(message: HelperMessage): void {
    if ('pids' in message) this.lastPids = message.pids
    switch (message.kind) {
      case 'started':
        this.start.resolve(message.controlPlane)
        break
      case 'failed':
        this.start.reject(new ControlPlaneFailed(message.message))
        break
      case 'done':
        this.take(message.id)?.resolve()
        break
      case 'refused':
        this.take(message.id)?.reject(new ControlPlaneFailed(message.message))
        break
    }
  }

  private take(id: number): PromiseWithResolvers<void> | undefined {
    const answer = this.waiting.get(id)
    this.waiting.delete(id)
    return answer
  }

  /** A helper that was killed leaves its children, which are in its group, and its files. */
  private async afterExit({ workDir, removeWorkDir }: HelperSettings): Promise<void> {
    this.killGroup()
    const ended = new ControlPlaneFailed('the control plane has ended')
    this.start.reject(ended)
    for (const answer of this.waiting.values()) answer.reject(ended)
    this.waiting.clear()
    if (removeWorkDir) await rm(workDir, { recursive: true, force: true, maxRetries: 5 })
  }

  private killGroup(): void {
    try {
      if (this.process.pid !== undefined) process.kill(-this.process.pid, 'SIGKILL')
    } catch {
      // The group is empty.
    }
  }
}
