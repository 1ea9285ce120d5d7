/** A place of a controller or of the REST API, whose processes follow each other behind a way of its own to the API server. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../../playground/free-port.ts'
import { TcpProxy } from '../../chaos/fleet/tcp-proxy.ts'
import { RoleProcess } from '../../support/role-process.ts'

export type MemberOptions = {
  role: 'controller' | 'api'
  name: string
  kubeconfigPath: string
  /** Of the API server. */
  server: string
  folder: string
}

export type Settings = Readonly<Record<string, string>>

export class Member {
  readonly name: string
  readonly proxy: TcpProxy
  readonly opsPort: number
  readonly #options: MemberOptions
  readonly #apiPort: number
  readonly #kubeconfigPath: string
  #process: RoleProcess | undefined
  #settings: Settings = {}

  private constructor(options: MemberOptions, parts: { proxy: TcpProxy; opsPort: number; apiPort: number }) {
    this.name = options.name
    this.proxy = parts.proxy
    this.opsPort = parts.opsPort
    this.#apiPort = parts.apiPort
    this.#options = options
    this.#kubeconfigPath = join(options.folder, `${options.name}.kubeconfig`)
  }

  static async prepare(options: MemberOptions): Promise<Member> {
    const proxy = await TcpProxy.start(new URL(options.server))
    const member = new Member(options, { proxy, opsPort: await freePort(), apiPort: await freePort() })
    const kubeconfig = await readFile(options.kubeconfigPath, 'utf8')
    const own = kubeconfig.replaceAll(options.server, `https://127.0.0.1:${proxy.port}`)
    await writeFile(member.#kubeconfigPath, own, { mode: 0o600 })
    return member
  }

  /** @throws Error before it was started */
  get process(): RoleProcess {
    if (!this.#process) throw new Error(`${this.name} has not been started`)
    return this.#process
  }

  /** Of the REST API. */
  url(scheme = 'http'): string {
    return `${scheme}://127.0.0.1:${this.#apiPort}`
  }

  /** @param settings absent: those of the process before */
  start(settings = this.#settings): void {
    this.#settings = settings
    const { role, folder } = this.#options
    const address = role === 'api' ? { DAVIT_API_ADDRESS: `127.0.0.1:${this.#apiPort}` } : {}
    this.#process = new RoleProcess({
      role,
      kubeconfigPath: this.#kubeconfigPath,
      namespace: 'davit-system',
      replica: this.name,
      opsPort: this.opsPort,
      logPath: join(folder, `${this.name}.log`),
      settings: { ...settings, ...address },
    })
  }

  /** SIGKILL, and another process in its place. */
  async restart(settings = this.#settings): Promise<void> {
    await this.kill()
    this.start(settings)
  }

  async kill(): Promise<void> {
    if (!this.#process?.running) return
    this.#process.resume()
    await this.#process.kill()
  }

  async close(): Promise<void> {
    await this.kill()
    await this.proxy.close()
  }
}
