/** Programs that are run to their end, and waits for what other machines do. */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
const MAX_OUTPUT = 2 ** 26
const ASK_EVERY_MS = 500

export type CommandOptions = { env?: NodeJS.ProcessEnv; cwd?: string; limitMs?: number }

/** @returns its stdout @throws Error with its output */
export async function command(
  program: string,
  args: readonly string[],
  { env = process.env, cwd, limitMs = 120_000 }: CommandOptions = {},
): Promise<string> {
  const { stdout } = await run(program, args, {
    env,
    timeout: limitMs,
    maxBuffer: MAX_OUTPUT,
    ...(cwd !== undefined && { cwd }),
  })
  return stdout
}

/** Asks again until there is an answer; what cannot be asked is asked again as well. */
export async function waitFor<T>(
  what: string,
  ask: () => Promise<T | undefined>,
  limitMs = 120_000,
): Promise<T> {
  const deadline = performance.now() + limitMs
  let last: unknown
  while (performance.now() < deadline) {
    try {
      const answer = await ask()
      if (answer !== undefined) return answer
      last = undefined
    } catch (error) {
      last = error
    }
    await sleep(ASK_EVERY_MS)
  }
  throw new Error(`waited in vain for ${what}`, { cause: last })
}
