/** Runs programs that a machine may not have. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

/** A language cannot be tried on this machine; the message says what is missing. */
export class NotHere extends Error {
  override readonly name = 'NotHere'
}

export type Ran = { code: number | null; stdout: string; stderr: string }

export type RunOptions = {
  cwd: string
  /** In addition to the environment of the tests. */
  env?: Record<string, string>
  input?: Uint8Array
}

const LIMIT_MS = 4 * 60_000

/** @throws NotHere where there is no such program */
export async function run(
  program: string,
  args: readonly string[],
  { cwd, env = {}, input }: RunOptions,
): Promise<Ran> {
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, ...env },
    signal: AbortSignal.timeout(LIMIT_MS),
  })
  const ended = once(child, 'close')
  // One that reads no further than it needs to closes its input.
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  try {
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
    return { code: code as number | null, stdout, stderr }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      throw new NotHere(`${program} is not on the PATH`)
    throw error
  }
}

/** If it needs the network or more than the program itself. @throws NotHere with its output */
export async function prepare(program: string, args: readonly string[], options: RunOptions): Promise<void> {
  const { code, stdout, stderr } = await run(program, args, options)
  if (code === 0) return
  throw new NotHere(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`)
}
