/** Runs `davit bake` as a process, with the environment and the folders of its pod. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { type BakeOrder, type BakeResult, bakeResult } from '../../../src/apis/bake.ts'

const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url))

export type BakeEnd = {
  /** Null if a signal ended it. */
  code: number | null
  /** Undefined if the process left none. */
  result: BakeResult | undefined
  log: string
}

export type RunningBake = {
  /** Process group. */
  group: number
  ended: Promise<BakeEnd>
  /** Kills it and all of its children, like the end of a container does. */
  kill(): void
  /** Terminates it like a kubelet ends a pod. */
  terminate(): void
}

/** The folders of one pod: its volume, its memory and the files that its kubelet reads. */
export class BakePod {
  readonly folder = mkdtempSync(join(tmpdir(), 'davit-bake-'))
  readonly output: string
  readonly memory = join(this.folder, 'memory')
  readonly message = join(this.folder, 'termination-log')

  /** @param output absent: a separate folder */
  constructor(output?: string) {
    this.output = output ?? join(this.folder, 'output')
    for (const folder of [this.output, this.memory]) mkdirSync(folder, { recursive: true })
  }

  /**
   * @param environment additional variables, such as its identity
   * @param within a command that wraps the bake
   */
  start(
    order: BakeOrder,
    environment: Readonly<Record<string, string>>,
    within: readonly string[] = [],
  ): RunningBake {
    const [program = '', ...rest] = [...within, process.execPath, MAIN, 'bake']
    const child = spawn(program, rest, {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: {
        PATH: process.env.PATH,
        HOME: this.folder,
        TMPDIR: this.folder,
        DAVIT_BAKE_ORDER: JSON.stringify(order),
        DAVIT_TMPFS: this.memory,
        DAVIT_SCRATCH: this.folder,
        DAVIT_TERMINATION_LOG: this.message,
        ...environment,
      },
    })
    return {
      group: child.pid ?? 0,
      ended: this.#endOf(child),
      kill: () => signalGroup(child, 'SIGKILL'),
      terminate: () => void child.kill('SIGTERM'),
    }
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  async #endOf(child: ChildProcess): Promise<BakeEnd> {
    const exit = once(child, 'exit') as Promise<[number | null]>
    const [stdout, stderr, [code]] = await Promise.all([streamed(child.stdout), streamed(child.stderr), exit])
    const content = existsSync(this.message) ? readFileSync(this.message, 'utf8') : ''
    // A restarted pod gets a new message file.
    if (content !== '') writeFileSync(this.message, '')
    return {
      code,
      result: content === '' ? undefined : bakeResult.parse(JSON.parse(content)),
      log: stdout + stderr,
    }
  }
}

function streamed(stream: ChildProcess['stdout']): Promise<string> {
  return stream ? text(stream) : Promise.resolve('')
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(-child.pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
