/** A controller or REST server of a fleet: successive processes in one position, with their own connection to the API server. */
import { statSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../../playground/free-port.ts'
import { RoleProcess } from '../../support/role-process.ts'
import { TcpProxy } from './tcp-proxy.ts'

export type Role = 'controller' | 'api'

/** One process of a member; numbered from 1 across the whole fleet. Times by `performance.now()`. */
export type Life = { number: number; member: string; replica: string; startedAt: number; endedAt?: number }

export type MemberOptions = {
  role: Role
  index: number
  /** Addresses of the API server, and of others that connections alternate between. */
  servers: readonly [string, ...string[]]
  /** A kubeconfig for the first. */
  kubeconfigPath: string
  namespace: string
  folder: string
  settings: Readonly<Record<string, string>>
  /** Returns the next number of a life. */
  nextLife: () => number
}

const PRELOADS = [
  new URL('./process-preload.ts', import.meta.url).href,
  new URL('../../support/shifted-clock.ts', import.meta.url).href,
]
/** An orderly end takes the drain time and the last writes. */
const END_LIMIT_MS = 60_000

export class Member {
  readonly role: Role
  readonly name: string
  readonly proxy: TcpProxy
  readonly lives: Life[] = []
  readonly logPath: string
  /** Descriptions of violations. */
  readonly wrong: string[] = []
  readonly #options: MemberOptions
  readonly #kubeconfigPath: string
  readonly #clockPath: string
  readonly #ports: { ops: number; api: number }
  /** Processes that were ended on purpose. */
  readonly #expected = new WeakSet<RoleProcess>()
  #process: RoleProcess | undefined
  /** Entry point of its processes. */
  main: string | undefined

  private constructor(
    options: MemberOptions,
    parts: { proxy: TcpProxy; ports: { ops: number; api: number } },
  ) {
    this.role = options.role
    this.name = `${options.role}-${options.index}`
    this.proxy = parts.proxy
    this.logPath = join(options.folder, `${this.name}.log`)
    this.#options = options
    this.#kubeconfigPath = join(options.folder, `${this.name}.kubeconfig`)
    this.#clockPath = join(options.folder, `${this.name}.clock`)
    this.#ports = parts.ports
  }

  static async prepare(options: MemberOptions): Promise<Member> {
    const proxy = await TcpProxy.start(...options.servers.map((server) => new URL(server)))
    const ports = { ops: await freePort(), api: await freePort() }
    const member = new Member(options, { proxy, ports })
    const kubeconfig = await readFile(options.kubeconfigPath, 'utf8')
    const own = kubeconfig.replaceAll(options.servers[0], `https://127.0.0.1:${proxy.port}`)
    await writeFile(member.#kubeconfigPath, own, { mode: 0o600 })
    await member.stepClock(0)
    return member
  }

  /** Of the REST API. */
  get baseUrl(): string {
    return `http://127.0.0.1:${this.#ports.api}`
  }

  /** @throws Error before it was started */
  get process(): RoleProcess {
    if (!this.#process) throw new Error(`${this.name} has not been started`)
    return this.#process
  }

  get life(): Life | undefined {
    return this.lives.at(-1)
  }

  /** @param newName whether it is a new replica to the others, like a pod that replaces another */
  start(newName: boolean): void {
    const number = this.#options.nextLife()
    const replica = newName ? `${this.name}-${number}` : (this.life?.replica ?? this.name)
    this.lives.push({ number, member: this.name, replica, startedAt: performance.now() })
    const { role, namespace, settings } = this.#options
    this.#process = new RoleProcess({
      role,
      kubeconfigPath: this.#kubeconfigPath,
      namespace,
      replica,
      opsPort: this.#ports.ops,
      logPath: this.logPath,
      main: this.main,
      settings: {
        ...settings,
        ...(role === 'api' ? { DAVIT_API_ADDRESS: `127.0.0.1:${this.#ports.api}` } : {}),
        NODE_OPTIONS: PRELOADS.map((url) => `--import=${url}`).join(' '),
        CLOCK_OFFSET_FILE: this.#clockPath,
        FLEET_SENDER: String(number),
      },
    })
    void this.#watch(this.process, this.life)
  }

  async kill(): Promise<void> {
    this.#expected.add(this.process)
    await this.process.kill()
  }

  /** Ends it like Kubernetes ends a pod, including the kill after the grace period. */
  async terminate(): Promise<void> {
    const { process } = this
    this.#expected.add(process)
    process.terminate()
    const limit = setTimeout(() => {
      this.wrong.push(`${this.name} did not end within a minute of SIGTERM`)
      void process.kill()
    }, END_LIMIT_MS)
    await process.exited
    clearTimeout(limit)
  }

  /** Sets its wall clock, which takes effect within some milliseconds. */
  async stepClock(offsetMs: number): Promise<void> {
    await writeFile(this.#clockPath, String(offsetMs))
  }

  async #watch(process: RoleProcess, life: Life | undefined): Promise<void> {
    // Its log continues after that of the previous process.
    const from = statSync(this.logPath).size
    const code = await process.exited
    if (life) life.endedAt = performance.now()
    if (this.#expected.has(process)) return
    if (await this.#hasMissed(from)) this.start(false)
    else this.wrong.push(`${this.name} has ended by itself with ${code}`)
  }

  /** It was away for so long that only a restart can help: a kubelet restarts it. */
  async #hasMissed(from: number): Promise<boolean> {
    const log = await readFile(this.logPath)
    return log.toString('utf8', from).includes('delivery outcomes were unreachable')
  }
}
