/** Runs the playground like `npm start`, with a separate state folder. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { vi } from 'vitest'
import type { PlaygroundFacts } from '../../playground/playground-file.ts'

const MAIN = fileURLToPath(new URL('../../playground/main.ts', import.meta.url))
/** On a machine that is busy with other tests. */
const START_LIMIT_MS = 100_000

export type PlaygroundProcess = {
  child: ChildProcess
  /** `playground.json` in its state folder. */
  file: string
  /** The content of the file; resolves when the playground runs. */
  facts(): Promise<PlaygroundFacts>
  /** Its output so far. */
  output(): string
  /** Its exit code, or the signal that ended it. */
  ended: Promise<number | string>
  stdout: Promise<string>
  stderr: Promise<string>
}

export type PlaygroundOnTerminal = {
  child: ChildProcess
  /** Everything on the terminal so far. */
  output(): string
  /** Types on the terminal. */
  type(text: string): void
  ended: Promise<number | string>
}

/** Runs it on a terminal of its own, and afterwards prints the settings of that terminal. @param state folder */
export function startOnTerminal(state: string, ...args: string[]): PlaygroundOnTerminal {
  const command = `${process.execPath} ${MAIN} --state ${state} ${args.join(' ')}; code=$?; stty -a; exit $code`
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    env: { ...process.env, SHELL: '/bin/sh', TERM: 'xterm' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let written = ''
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    written += more
  })
  return {
    child,
    output: () => written,
    type: (text) => void child.stdin.write(text),
    // Not 'exit': by then, its last output may still be on the way.
    ended: once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string),
  }
}

/** @param of state folder, and the PATH; absent: the PATH of this process */
export function startPlaygroundProcess(
  of: string | { state: string; path: string },
  ...args: string[]
): PlaygroundProcess {
  const { state, path } = typeof of === 'string' ? { state: of, path: process.env.PATH } : of
  // In a separate process group, like a shell's job that gets Ctrl-C.
  const child = spawn(process.execPath, [MAIN, '--state', state, ...args], {
    detached: true,
    env: { ...process.env, PATH: path },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const file = join(state, 'playground.json')
  const facts = () =>
    vi.waitFor(async () => JSON.parse(await readFile(file, 'utf8')) as PlaygroundFacts, {
      timeout: START_LIMIT_MS,
      interval: 50,
    })
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | string)
  let written = ''
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    written += more
  })
  const stdout = once(child.stdout, 'end').then(() => written)
  return { child, file, facts, output: () => written, ended, stdout, stderr: text(child.stderr) }
}

export async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'davit-playground-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** PIDs of the processes that it and its children have started. */
export async function descendantsOf(pid: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid='])
  const pairs = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
  const found: number[] = []
  for (let level = [pid]; level.length > 0; found.push(...level)) {
    const parents = level
    level = pairs.flatMap(([child = 0, parent = 0]) => (parents.includes(parent) ? [child] : []))
  }
  return found
}

/** Those that are alive; a zombie is not. */
export async function livingOf(pids: readonly number[]): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,stat='])
  return stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, state]) => !state?.startsWith('Z'))
    .map(([pid]) => Number(pid))
    .filter((pid) => pids.includes(pid))
}
