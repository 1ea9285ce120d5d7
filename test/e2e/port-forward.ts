/** A connection from loopback into the cluster, by `kubectl port-forward`; renewed when its pod goes. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { freePort } from '../../playground/free-port.ts'
import { waitFor } from './commands.ts'

const START_LIMIT_MS = 60_000

export class PortForward {
  readonly #args: readonly string[]
  readonly #port: number
  #child: ChildProcess | undefined
  #renewing: Promise<void> | undefined
  #times = 0

  private constructor(args: readonly string[], port: number) {
    this.#args = args
    this.#port = port
  }

  /** @param target such as `service/davit-api`, in the namespace @param port of it */
  static async start(
    kubeconfig: string,
    { namespace, target, port }: { namespace: string; target: string; port: number },
  ): Promise<PortForward> {
    const local = await freePort()
    const args = ['--kubeconfig', kubeconfig, '-n', namespace, 'port-forward', target, `${local}:${port}`]
    const forward = new PortForward(args, local)
    await forward.renew()
    return forward
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** How often it was made. */
  get times(): number {
    return this.#times
  }

  /** Those who ask while it is made wait for the same one. */
  renew(): Promise<void> {
    this.#renewing ??= this.#make().finally(() => {
      this.#renewing = undefined
    })
    return this.#renewing
  }

  async #make(): Promise<void> {
    await waitFor(
      `kubectl ${this.#args.join(' ')}`,
      async () => {
        await this.stop()
        const child = spawn('kubectl', this.#args, { stdio: ['ignore', 'pipe', 'ignore'] })
        this.#child = child
        this.#times += 1
        const output = once(child.stdout, 'data').then(() => true)
        const ended = once(child, 'exit').then(() => undefined)
        return await Promise.race([output, ended])
      },
      START_LIMIT_MS,
    )
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
}
