/**
 * Another API server on the etcd of a control plane, as in a cluster with several. Data from etcd reaches it late, so that its
 * view lags behind that of the first.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { TcpProxy } from '../chaos/fleet/tcp-proxy.ts'

type Of = Pick<ControlPlane, 'access' | 'etcdUrl' | 'pids'>

const READY_LIMIT_MS = 60_000
const POLL_MS = 50

export class SecondApiServer {
  readonly url: string
  readonly #of: Of
  readonly #command: readonly string[]
  readonly #etcd: TcpProxy
  readonly #behindMs: number
  #process: ChildProcess | undefined

  private constructor(
    of: Of,
    parts: { url: string; command: readonly string[]; etcd: TcpProxy; behindMs: number },
  ) {
    this.#of = of
    this.#behindMs = parts.behindMs
    this.url = parts.url
    this.#command = parts.command
    this.#etcd = parts.etcd
  }

  /** Starts a ready server. @param behindMs delay of data from etcd */
  static async start(of: Of, behindMs: number): Promise<SecondApiServer> {
    const etcd = await TcpProxy.start(new URL(of.etcdUrl))
    const port = await freePort()
    const flags = { '--secure-port': String(port), '--etcd-servers': `http://127.0.0.1:${etcd.port}` }
    const command = withFlags(await commandOf(of.pids.apiServer), flags)
    const second = new SecondApiServer(of, { url: `https://127.0.0.1:${port}`, command, etcd, behindMs })
    try {
      await second.start()
      return second
    } catch (error) {
      await second.close()
      throw error
    }
  }

  /** Restarts after a stop; without delay until it is ready. @throws Error if it does not become ready */
  async start(): Promise<void> {
    this.#etcd.delay('down', 0)
    // It ends with this process, however that ends.
    this.#process = spawn('setpriv', ['--pdeathsig', 'KILL', ...this.#command], { stdio: 'ignore' })
    let ended: unknown
    this.#process.once('error', (error) => {
      ended = error
    })
    this.#process.once('exit', (code, signal) => {
      ended ??= signal ?? code
    })
    const access = { ...this.#of.access, server: this.url }
    for (const limit = performance.now() + READY_LIMIT_MS; ; await sleep(POLL_MS)) {
      const answer = await requestApi(access, { method: 'GET', path: '/readyz' }).catch(() => undefined)
      if (answer?.status === 200) return this.#etcd.delay('down', this.#behindMs)
      if (performance.now() > limit || ended !== undefined)
        throw new Error(`the second API server does not become ready: ${ended ?? 'it takes too long'}`)
    }
  }

  /** Ends it like a crash. Returns when it is gone. */
  async stop(): Promise<void> {
    const child = this.#process
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  async close(): Promise<void> {
    await this.stop()
    await this.#etcd.close()
  }
}

/** The command line of the process: certificates and keys must be those of the first server for its clients. */
async function commandOf(pid: number): Promise<string[]> {
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').filter((part) => part !== '')
}

/** @throws Error if one of these flags is missing */
function withFlags(command: readonly string[], flags: Readonly<Record<string, string>>): string[] {
  for (const flag of Object.keys(flags))
    if (!command.some((part) => part.startsWith(`${flag}=`))) throw new Error(`${command[0]} has no ${flag}`)
  return command.map((part) => {
    const [name = ''] = part.split('=')
    return name in flags ? `${name}=${flags[name]}` : part
  })
}
