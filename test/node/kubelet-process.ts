/** The kubelet of the node, which is a process of this machine: started again with other arguments, and then as it was. */
import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { readFile, readlink, writeFile } from 'node:fs/promises'
import { until } from '../support/until.ts'

const END_LIMIT_MS = 60_000

type Command = { program: string; args: string[]; cwd: string; env: Record<string, string>; log: string }

export class KubeletProcess {
  readonly #pidFile: string
  readonly #command: Command
  #pid: number

  private constructor(pidFile: string, command: Command, pid: number) {
    this.#pidFile = pidFile
    this.#command = command
    this.#pid = pid
  }

  static async find(pidFile: string): Promise<KubeletProcess> {
    const pid = Number(await readFile(pidFile, 'utf8'))
    const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8')
    const [program = '', ...args] = split(await read('cmdline'))
    if (!program.endsWith('kubelet')) throw new Error(`process ${pid} is ${program}, no kubelet`)
    const entries = split(await read('environ')).map((text) => {
      const at = text.indexOf('=')
      return [text.slice(0, at), text.slice(at + 1)] as const
    })
    const link = (name: string) => readlink(`/proc/${pid}/${name}`)
    const command = {
      program: await link('exe'),
      args,
      cwd: await link('cwd'),
      env: Object.fromEntries(entries),
      log: await link('fd/2'),
    }
    return new KubeletProcess(pidFile, command, pid)
  }

  /** @param log where it writes; absent: where it always does */
  async startAgain(more: readonly string[] = [], log = this.#command.log): Promise<void> {
    await this.#end()
    const { program, args, cwd, env } = this.#command
    const output = openSync(log, 'a', 0o600)
    const child = spawn(program, [...args, ...more], {
      cwd,
      env,
      detached: true,
      stdio: ['ignore', output, output],
    })
    child.unref()
    if (child.pid === undefined) throw new Error(`${program} does not start`)
    this.#pid = child.pid
    await writeFile(this.#pidFile, `${child.pid}\n`)
  }

  async #end(): Promise<void> {
    process.kill(this.#pid, 'SIGTERM')
    await until(
      async () => (isRunning(await stateOf(this.#pid)) ? undefined : true),
      () => `the kubelet ${this.#pid} does not end`,
      END_LIMIT_MS,
    )
  }
}

function split(text: string): string[] {
  return text.split('\0').filter((part) => part !== '')
}

/** A letter; undefined where there is no such process. */
async function stateOf(pid: number): Promise<string | undefined> {
  try {
    return /^State:\s+(\w)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]
  } catch {
    return undefined
  }
}

/** An ended process stays until its parent has read its exit. */
function isRunning(state: string | undefined): boolean {
  return state !== undefined && state !== 'Z'
}
