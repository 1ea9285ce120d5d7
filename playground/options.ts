import { resolve } from 'node:path'
import { parseArgs } from 'node:util'

export type PlaygroundOptions = {
  /** Ends after ten deliveries and two bakes, with a summary. */
  once: boolean
  /** The documented waits instead of short ones. */
  realWaits: boolean
  controllers: number
  /** Folder for its logs and `playground.json`; only one playground at a time can use it. */
  state: string
}

/** Carries a message for the user. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export const USAGE = `usage: npm start -- [--once] [--real-waits] [--controllers <n>] [--state <folder>]

  --once            exit with a summary after ten deliveries and two bakes; the exit code is 1 if a
                    signature fails verification or a bake has an unexpected result
  --real-waits      use the documented delays between attempts (30 s, 2 m, 10 m, ...); by default, the
                    delays are a twentieth of these
  --controllers <n> number of controllers that share the work, 1 to 9 (default 1); with several, you can
                    kill one
  --state <folder>  folder for logs and playground.json (default .davit); a second playground needs a
                    different folder
  --help            show this help`

/** @param standard state folder unless one is given @throws UsageError */
export function parseOptions(
  args: readonly string[],
  standard: string,
): PlaygroundOptions & { help: boolean } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        once: { type: 'boolean', default: false },
        'real-waits': { type: 'boolean', default: false },
        controllers: { type: 'string', default: '1' },
        state: { type: 'string', default: standard },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    const { once, 'real-waits': realWaits, state, help } = values
    if (state === '') throw new Error("Option '--state' must be a folder")
    if (!/^[1-9]$/.test(values.controllers))
      throw new Error("Option '--controllers' must be a number from 1 to 9")
    return { once, realWaits, controllers: Number(values.controllers), state: resolve(state), help }
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
  }
}
